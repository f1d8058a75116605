"""What is printed: the settings of a run and a table for people, one line of JSON for programs."""

from __future__ import annotations

import platform
import time
from importlib.metadata import version
from statistics import median

from benchmarks import machine
from benchmarks.compare import Comparison
from benchmarks.drain import Drained
from benchmarks.stage import CONCURRENCY, Stage

PACKAGES = (
    "celery",
    "kombu",
    "redis",
    "django",
    "psycopg",
    "django-celery-results",
    "procrastinate",
)
SHOWN = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
COMMITS = 200
HEAD = (
    "",
    "jobs/s",
    "from",
    "to",
    "of raw",
    "parent",
    "children",
    "postgres",
    "valkey",
    "enqueue/s",
)


def settings(stage: Stage) -> list[str]:
    """What the run ran under."""
    shown = {name: stage.administer(f"SHOW {name}")[0][0] for name in SHOWN}
    return [
        f"machine        {machine.CORES} cores, {platform.machine()}, CPython "
        f"{platform.python_version()}, load {machine.load():.1f} at the start",
        "packages       " + ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        "postgresql     " + ", ".join(f"{name} {value}" for name, value in shown.items()),
        f"               a flushed commit takes {commit_ms(stage):.2f} ms here; Unix socket",
        "valkey         nothing is written to disk; Unix socket",
        f"celery         prefork, {CONCURRENCY} children, no gossip, no mingle; for all three apps",
        "               config/settings.py says how they use the broker: early ack, prefetch 1",
        f"procrastinate  one asyncio process, {CONCURRENCY} jobs at a time, async jobs",
        "firedoor       as deployed: config/settings.py, its log at INFO as JSON; no beat",
    ]


def commit_ms(stage: Stage) -> float:
    """What one commit costs that waits for the disk: the median of many."""
    taken = []
    with stage.link() as link:
        for _ in range(COMMITS):
            begun = time.perf_counter()
            link.execute("SELECT pg_logical_emit_message(true, 'bench', 'x')")
            taken.append(1000 * (time.perf_counter() - begun))
    return median(taken)


def table(comparison: Comparison) -> list[str]:
    """The figures of every contender: rates, the ratio to raw, processor milliseconds a job."""
    rows = [HEAD, *(_row(comparison, name) for name in comparison.rounds)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
    return [*lines, "", *_remarks(comparison)]


def _row(comparison: Comparison, name: str) -> tuple[str, ...]:
    rounds = comparison.rounds[name]
    rates = [each.per_second for each in rounds]
    cost = [
        f"{median(each.cost[group] for each in rounds):.2f}"
        for group in ("parent", "children", "postgresql", "valkey")
    ]
    return (
        name,
        f"{median(rates):.0f}",
        f"{min(rates):.0f}",
        f"{max(rates):.0f}",
        f"{median(comparison.ratios(name, 'raw')):.2f}",
        *cost,
        f"{comparison.enqueued(name):.0f}",
    )


def _remarks(comparison: Comparison) -> list[str]:
    every = [each for rounds in comparison.rounds.values() for each in rounds]
    return [
        "jobs/s: median, lowest and highest of the rounds; of raw: median of each round's ratio;",
        "parent, children, postgres, valkey: processor ms a job; enqueue/s: "
        "one by one for Celery, in bulk for the others",
        *(_wire(name, wire.by_words) for name, wire in comparison.wires.items()),
        _neighbours(every),
    ]


def _wire(name: str, by_words: dict[str, float]) -> str:
    said = "; ".join(f"{count:.2f} {words} …" for words, count in by_words.items())
    return f"statements of a worker a job, {name}: {said}"


def _neighbours(rounds: list[Drained]) -> str:
    others = [each.others for each in rounds]
    loads = [each.load for each in rounds]
    return (
        f"other processes used {median(others):.0%} of the machine (at most {max(others):.0%}); "
        f"load {min(loads):.1f} to {max(loads):.1f}, the benchmark's own included"
    )
