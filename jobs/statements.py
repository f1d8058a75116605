"""How ``jobs.moves`` sends a statement: prepared, by ``workspaces.sql``, and again if it was lost.

States are literals, never parameters: a bound one cannot prove a partial index's predicate.

Kept connections never heal by themselves, and a worker sends none of Django's request signals that
would close them, so every statement outside a transaction is sent again on a new connection when
the old one turns out dead. *Hole:* a statement whose commit was done but whose answer was lost is
sent twice; each statement of ``jobs.moves`` says what that means for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from django.db import Error, InterfaceError, OperationalError, connection, transaction

from workspaces.outages import NO_ROOM, READ_ONLY
from workspaces.sql import Row, execute

T = TypeVar("T")

UNREACHABLE = (OperationalError, InterfaceError)
_PAUSES = (0.0, 0.2, 1.0)
_CONTENTION = frozenset({"40001", "40P01"})  # serialisation failure, deadlock


@dataclass(frozen=True)
class Fenced:
    """An update of the job row, and a write that depends on it having matched.

    One statement on PostgreSQL. On SQLite, which has no data-modifying CTEs, two in one
    transaction. ``child`` reads the updated row as ``j``; ``answer`` lists what is returned.
    """

    update: str
    answer: str
    child: str = ""

    def send(self, params: Mapping[str, Any]) -> Row | None:
        """The answer, or None where the update matched no row."""
        if connection.vendor == "postgresql":
            rows = send(self._joined, params)
            return rows[0] if rows else None
        return again(lambda: self._one_by_one(params))

    @cached_property
    def _joined(self) -> str:
        if not self.child:
            return f"{self.update} RETURNING {self.answer}"
        child = f"c AS ({self.child} RETURNING 1)"
        return f"WITH j AS ({self.update} RETURNING *), {child} SELECT {self.answer} FROM j"

    def _one_by_one(self, params: Mapping[str, Any]) -> Row | None:
        with transaction.atomic():
            rows = execute(f"{self.update} RETURNING {self.answer}", params)
            if rows and self.child:
                chosen = "WITH j AS (SELECT * FROM jobs_job WHERE id = @uuid(id)) "
                execute(chosen + self.child, params)
        return rows[0] if rows else None


def send(sql: str, params: Mapping[str, Any]) -> list[Row]:
    """Send one statement; outside a transaction, again on a new connection if it was lost.

    Returns the rows, or an empty list for a statement that returns none. Raises Django's
    ``OperationalError`` or ``InterfaceError`` when the database stays out of reach for 1.2 s, or
    takes no writes for so long.
    """
    return again(lambda: execute(sql, params))


def again(work: Callable[[], T], pauses: Sequence[float] = _PAUSES) -> T:
    """Do ``work``; outside a transaction repeat it on a new connection after each pause."""
    if connection.in_atomic_block:
        return work()
    for pause in pauses:
        try:
            return work()
        except Error as error:
            if not _worth_repeating(error):
                raise
        time.sleep(pause)  # noqa: TID251  bounded: 1.2 s in all
    return work()


def _worth_repeating(error: Error) -> bool:
    """Whether the database did nothing, and will do it in a while.

    The connection is lost, or leads where nothing may be written (it is closed then); the statement
    fell to a deadlock; there is no room. A lock that is not available in time, for one, is an
    answer and none of these.
    """
    sqlstate = getattr(error.__cause__, "sqlstate", None)
    if sqlstate is None:
        lost = isinstance(error, UNREACHABLE)
    elif sqlstate in _CONTENTION or sqlstate.startswith(NO_ROOM):
        return True
    else:
        lost = sqlstate == READ_ONLY or sqlstate.startswith(("08", "57P"))
    if lost:
        connection.close()
    return lost


def bound_waiting(seconds: float) -> None:
    """Let no statement of this transaction wait longer for a lock (PostgreSQL only).

    Raises nothing itself: the statement that would wait longer raises OperationalError.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{seconds}s"])


def persist(work: Callable[[], T], seconds: float) -> T:
    """Do ``work``, repeating it for ``seconds`` while the database is out of reach, full or locked.

    For writes that must not be given up while their fence may still hold. ``work`` must be safe
    to repeat after a commit whose answer was lost.
    """
    until = time.monotonic() + seconds
    pause = 0.1
    while True:
        try:
            return work()
        except Error as error:
            if connection.in_atomic_block or time.monotonic() + pause > until:
                raise
            if not _worth_repeating(error):
                raise
        time.sleep(pause)  # noqa: TID251  bounded by the caller
        pause = min(2.0, pause * 2)
