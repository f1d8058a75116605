"""Whether a worker's memory grows with the jobs it has run.

Its children are not replaced here, as they are when deployed (``worker_max_tasks_per_child``),
or nothing that leaks would ever show.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import machine
from benchmarks.peer import Peer
from benchmarks.stage import Stage
from tests.servers.process import family

BATCH = 2000
LOOKS = 10


def measure(stage: Stage, *, share: float, say: Callable[[str], None]) -> dict[str, object]:
    """Run ten times 2000 jobs of one step; the memory after the first and after the last."""
    client = stage.client("firedoor")
    worker = stage.start_worker("firedoor", "--max-tasks-per-child", "1000000000")
    peer = Peer("firedoor", worker, client, stage.stamps("firedoor"))
    batch, looks = max(1, round(BATCH * share)), []
    for number in range(LOOKS):
        peer.fill("one_step", batch)
        peer.drain(batch)
        parent, *children = [machine.resident_kb(pid) for pid in family(worker.pid)]
        looks.append((parent, max(children)))
        say(
            f"after {batch * (number + 1):6} jobs: parent {parent / 1024:.1f} MB,"
            f" the largest child {max(children) / 1024:.1f} MB"
        )
    return {
        "memory_jobs": batch * LOOKS,
        "parent_kb_first": looks[0][0],
        "parent_kb_last": looks[-1][0],
        "child_kb_first": looks[0][1],
        "child_kb_last": looks[-1][1],
        "child_growth": round(looks[-1][1] / looks[0][1], 3),
        "parent_growth": round(looks[-1][0] / looks[0][0], 3),
    }
