"""How many statements a worker really sends for a job, as PostgreSQL logs them."""

from __future__ import annotations

from collections import Counter
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
    for name, value in _SETTINGS.items():
        stage.administer(f"ALTER SYSTEM SET {name} = '{value}'")
    stage.administer("SELECT pg_reload_conf()")
    try:
        peer.fill(contender.task, JOBS)
        before = len(stage.database.log())
        peer.drain(JOBS)
        said = _statements(stage.database.log()[before:], f"{contender.peer}-worker")
    finally:
        for name in _SETTINGS:
            stage.administer(f"ALTER SYSTEM RESET {name}")
        stage.administer("SELECT pg_reload_conf()")
    by_words = {words: count / JOBS for words, count in said.most_common()}
    return Wire(sum(said.values()) / JOBS, by_words)


def _statements(log: str, application: str) -> Counter[str]:
    """The first words of what ``application`` sent: ``LOG:  execute _pg3_0: UPDATE …``."""
    found: Counter[str] = Counter()
    for line in log.splitlines():
        who, _, what = line.partition("|LOG:  ")
        kind, _, statement = what.partition(": ")
        if who == application and kind.split(" ")[0] in ("execute", "statement"):
            found[" ".join(statement.split()[:5])] += 1
    return found
