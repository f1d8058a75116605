"""What the machine did meanwhile: processor time of a group of processes, and of the whole."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.servers.process import family

CORES = len(os.sched_getaffinity(0))
_TICKS = os.sysconf("SC_CLK_TCK")


def of_family(pid: int) -> float:
    """Processor seconds of a process and its descendants so far, those that ended included."""
    return sum(_seconds(each, own_only=False) for each in family(pid))


def of_one(pid: int) -> float:
    """Processor seconds of one process so far."""
    return _seconds(pid, own_only=True)


def of_machine() -> float:
    """Processor seconds that this machine was busy so far."""
    words = Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
    user, nice, system, _idle, _waiting, irq, soft, steal = map(int, words)
    return (user + nice + system + irq + soft + steal) / _TICKS


def _seconds(pid: int, *, own_only: bool) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended meanwhile; its parent counts it from now on
        return 0.0
    return sum(map(int, fields[11 : 13 if own_only else 15])) / _TICKS


def resident_kb(pid: int) -> int:
    """The memory that a process holds now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def load() -> float:
    """The load average of the last minute."""
    return os.getloadavg()[0]


def clock() -> float:
    """Seconds by the clock that the stamps use."""
    return time.monotonic()
