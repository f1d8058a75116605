"""How many statements a worker really sends for a job, as PostgreSQL logs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.drain import Contender
from benchmarks.stage import Stage

JOBS = 100
_SETTINGS = {"log_statement": "all", "log_line_prefix": "%a|"}


@dataclass(frozen=True)
class Wire:
    """Statements by their first words, and in all, a job."""

    per_job: float
    by_words: dict[str, float]


def listen(stage: Stage, contender: Contender) -> Wire:
    """Drain a hundred jobs with every statement logged: no time is taken meanwhile."""
    peer = stage.peer(contender.peer)
    peer.fill(contender.task, JOBS)
    with listening(stage, f"{contender.peer}-worker") as said:
        peer.drain(JOBS)
    by_words = {words: count / JOBS for words, count in said.most_common()}
    return Wire(sum(said.values()) / JOBS, by_words)


@contextmanager
def listening(stage: Stage, application: str) -> Iterator[Counter[str]]:
    """Log every statement for the block; after it, what ``application`` said by its first words."""
    said: Counter[str] = Counter()
    for name, value in _SETTINGS.items():
        stage.administer(f"ALTER SYSTEM SET {name} = '{value}'")
    stage.administer("SELECT pg_reload_conf()")
    try:
        before = len(stage.database.log())
        yield said
        said.update(_statements(stage.database.log()[before:], application))
    finally:
        for name in _SETTINGS:
            stage.administer(f"ALTER SYSTEM RESET {name}")
        stage.administer("SELECT pg_reload_conf()")


def _statements(log: str, application: str) -> Counter[str]:
    """The first words of what ``application`` sent: ``LOG:  execute _pg3_0: UPDATE …``."""
    found: Counter[str] = Counter()
    lines = log.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        who, _, what = line.partition("|LOG:  ")
        kind, _, statement = what.partition(": ")
        if who == application and kind.split(" ")[0] in ("execute", "statement"):
            found[_first_words(statement.strip() or following)] += 1
    return found


def _first_words(statement: str) -> str:
    """Without the name of a savepoint, which is another one each time."""
    words = statement.split()
    return words[0] if words[0] in ("SAVEPOINT", "RELEASE") else " ".join(words[:5])
