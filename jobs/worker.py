"""Who a worker is, and whether it is surely gone."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

_UNKNOWN = "-"


@cache
def identity() -> str:
    """``host/boot id/pid namespace/pid/start ticks`` of this very process."""
    pid = os.getpid()
    return "/".join((socket.gethostname(), _boot_id(), _namespace(), str(pid), _start_ticks(pid)))


os.register_at_fork(after_in_child=identity.cache_clear)  # what is remembered names the parent


def is_gone(worker: str) -> bool:
    """Whether the process ``worker`` names has surely ended.

    True only when this process can see for itself: same host, boot and pid namespace, and no
    process with that pid and start time. False means "cannot tell" as well as "still there".
    """
    parts = worker.rsplit("/", 4)
    if len(parts) != 5 or _UNKNOWN in parts or not parts[3].isdigit():
        return False
    host, boot, namespace, pid, ticks = parts
    if (host, boot, namespace) != (socket.gethostname(), _boot_id(), _namespace()):
        return False
    now = _start_ticks(int(pid))
    if now == _UNKNOWN:
        return not _may_exist(int(pid))
    return now != ticks


def _may_exist(pid: int) -> bool:
    """Whether there may be a process that cannot be looked at: ``/proc`` can hide others' ones."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _UNKNOWN


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return _UNKNOWN


def _start_ticks(pid: int) -> str:
    """Start time of a process in clock ticks since boot: field 22 of its stat line.

    A zombie counts as ended: it executes nothing any more.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _UNKNOWN
    return f"ended:{fields[19]}" if fields[0] in "ZX" else fields[19]
