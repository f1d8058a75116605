"""How long a job stands still when everything that ran it is killed with SIGKILL.

Two whole workers and a beat; the one that has the job is killed, parent and children, at a random
moment between two renewals of its lease. Measured is from the kill to the job's next attempt.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from statistics import median

from benchmarks import stamps
from benchmarks.peer import Peer, is_alive
from benchmarks.stage import Stage
from tests.servers import Server
from tests.servers.process import family

BEYOND = 2.0  # seconds beyond the lease that are promised


def measure(stage: Stage, *, kills: int, say: Callable[[str], None]) -> dict[str, object]:
    """Kill so many times; the seconds each job took to go on, and what was promised."""
    peer = stage.peer("firedoor")
    beat = stage.start("firedoor", "beat", ("celery", "-A", "config", "beat", "--pidfile="))
    lease: float = peer.client.ask("held_lease")[0]
    workers, waits = [peer.worker], []
    for number in range(kills):
        workers = [worker for worker in workers if is_alive(worker)]
        workers.append(_another(stage, peer, number))
        waits.append(_one(peer, workers, lease))
        say(f"kill {number + 1}: the job ran again after {waits[-1]:.1f} s of a lease of {lease} s")
    for process in (beat, *workers):  # which would take the next mode's messages
        process.stop()
    return {
        "recovery_s": round(median(waits), 2),
        "recovery_longest_s": round(max(waits), 2),
        "lease_s": lease,
        "recovered_in_time": sum(wait <= lease + BEYOND for wait in waits),
        "kills": kills,
    }


def _another(stage: Stage, peer: Peer, number: int) -> Server:
    name = f"spare{number}@{socket.gethostname()}"
    worker = stage.start_worker("firedoor", "--hostname", name)
    peer.wait(lambda: f"{name} ready." in worker.log(), f"{name} ready")
    return worker


def _one(peer: Peer, workers: list[Server], lease: float) -> float:
    peer.fill("held", 1)
    peer.wait(lambda: stamps.count(peer.stamps) == 1, "first attempt")
    time.sleep(random.uniform(0.0, lease / 3))  # noqa: S311, TID251
    holder = peer.client.ask("holder")[0]
    victim = next(worker for worker in workers if holder in family(worker.pid))
    killed = time.monotonic()
    victim.kill()
    peer.wait(lambda: stamps.count(peer.stamps) == 2, "second attempt")
    return stamps.read(peer.stamps)[1] - killed
