"""One examination: every question in order, each answered, whatever is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import Error, connection

from config.doctor import (
    broker,
    clocks,
    code,
    database,
    events,
    letters,
    queued,
    running,
    upkeep,
    waiting,
    workers,
)
from config.doctor.answer import Answer, Level, fail
from config.doctor.check import CHECKS, Check
from config.doctor.sight import Sight
from workspaces.redaction import scrub

_ORDER = (
    *(code, broker, database, clocks, upkeep, workers),
    *(queued, waiting, running, letters, events),
)


@dataclass(frozen=True)
class Finding:
    """An answer as it is shown. ``command`` is empty where nothing is wrong."""

    code: str
    level: Level
    sentence: str
    command: str
    rows: tuple[str, ...]


def questions() -> list[Check]:
    """All of them, in the order in which they are asked and shown."""
    rooms = [room.__name__ for room in _ORDER]
    return sorted(CHECKS.values(), key=lambda check: rooms.index(check.ask.__module__))


def examine(only: Sequence[str] = ()) -> list[Finding]:
    """Ask everything that makes sense, or ``only`` what begins so; the findings.

    Raises nothing for what is broken: that is a finding. What a question needs is asked first, and
    told where it fails.
    """
    chosen = {check.code for check in questions() if check.code.startswith(tuple(only) or "")}
    found = _answered(_with_their_needs(chosen))
    return [each for each in found.values() if each.code in chosen or each.level is Level.FAIL]


def _with_their_needs(codes: set[str]) -> set[str]:
    needs = {CHECKS[code].needs for code in codes} - codes - {""}
    return _with_their_needs(codes | needs) if needs else codes


def _answered(codes: set[str]) -> dict[str, Finding]:
    sight = Sight()
    found: dict[str, Finding] = {}
    try:
        for check in (each for each in questions() if each.code in codes):
            needed = found.get(check.needs)
            if check.needs and (needed is None or needed.level is Level.FAIL):
                continue
            answer = _asked(check, sight)
            if answer is not None:
                found[check.code] = _finding(check, answer)
    finally:
        sight.close()
        _let_queries_run()
    return found


def _asked(check: Check, sight: Sight) -> Answer | None:
    try:
        return check.ask(sight)
    except Exception as error:  # noqa: BLE001  what breaks a question is an answer, too
        return fail(f"This could not be asked: {type(error).__name__}: {error}")


def _finding(check: Check, answer: Answer) -> Finding:
    row = answer.rows[0] if answer.rows else "ROW"
    helps = (answer.command or check.command).replace("ROW", row)
    command = "" if answer.level is Level.OK else helps
    rows = tuple(map(scrub, answer.rows))
    return Finding(check.code, answer.level, scrub(answer.sentence), scrub(command), rows)


def _let_queries_run() -> None:
    """Undo the bound on queries that ``database.reachable`` sets."""
    if connection.vendor == "postgresql" and connection.connection is not None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("RESET statement_timeout")
        except Error:
            connection.close()
