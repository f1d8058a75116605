"""Who a worker is, and whether it is surely gone."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

_UNKNOWN = "-"
_UNLIMITED = "inline:"  # before the name of one whom nothing ends at its time limit


@cache
def identity() -> str:
    """``host/boot id/pid namespace/pid/start ticks`` of this very process."""
    pid = os.getpid()
    return "/".join((socket.gethostname(), _boot_id(), _namespace(), str(pid), _start_ticks(pid)))


def unlimited(worker: str) -> str:
    """The name under which a worker claims what nothing ends at its hard time limit."""
    return f"{_UNLIMITED}{worker}"


def is_limited(worker: str) -> bool:
    """Whether something ends this worker's process at the hard time limit of its attempt."""
    return not worker.startswith(_UNLIMITED)


os.register_at_fork(after_in_child=identity.cache_clear)  # what is remembered names the parent


def is_gone(worker: str) -> bool:
    """Whether the process ``worker`` names has surely ended.

    True only when this process can see for itself: same host, boot and pid namespace, and no
    process with that pid and start time. False means "cannot tell" as well as "still there".
    """
    seen = _seen(worker)
    if seen is None:
        return False
    pid, ticks, now = seen
    return not _may_exist(pid) if now == _UNKNOWN else now != ticks


def is_alive(worker: str) -> bool:
    """Whether the process ``worker`` names is surely there. False means "cannot tell" as well."""
    seen = _seen(worker)
    return seen is not None and seen[1] == seen[2]


def of_earlier_boot(worker: str) -> bool:
    """Whether ``worker`` ran on a host of this name in another boot.

    Proof that it has ended only where no other machine can have that name.
    """
    parts = _parts(worker)
    if parts is None:
        return False
    return parts[0] == socket.gethostname() and parts[1] != _boot_id() != _UNKNOWN


def _parts(worker: str) -> list[str] | None:
    """Host, boot, namespace, pid and ticks of what is a full name."""
    parts = worker.removeprefix(_UNLIMITED).rsplit("/", 4)
    if len(parts) != 5 or _UNKNOWN in parts or not parts[3].isdigit():
        return None
    return parts


def _seen(worker: str) -> tuple[int, str, str] | None:
    """The pid of a worker in this place, its start, and that of whatever has the pid now."""
    parts = _parts(worker)
    if parts is None or parts[:3] != [socket.gethostname(), _boot_id(), _namespace()]:
        return None
    pid = int(parts[3])
    return pid, parts[4], _start_ticks(pid)


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
