"""Which process is that, and what of a run is still alive on this host?

Linux only: /proc and pidfd. A process is named by its pid *and* its start time, so that a pid
that was given to somebody else is never taken for ours.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from provisioning.terraform.errors import UnsupportedHost

PROC = Path("/proc")
MARKER = "FIREDOOR_RUN"  # in the environment of the tool, and so of all that it starts
_DEAD = frozenset("ZX")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pid means something: one boot of one kernel, one pid namespace."""

    host: str
    boot: str
    pid_namespace: str


@dataclass(frozen=True, slots=True)
class Process:
    """One process for all time; `ticks` is its start time in clock ticks since boot."""

    pid: int
    ticks: int


@dataclass(frozen=True, slots=True)
class _Stat:
    pid: int
    state: str
    session: int
    ticks: int


def here() -> Place:
    """Return this host's boot and pid namespace. Raises UnsupportedHost."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(PROC / "self/ns/pid")
    except OSError as error:
        raise UnsupportedHost(
            "Nothing was started: Terraform is supervised through /proc, which this host lacks. "
            "Run the provisioning queue's worker on Linux."
        ) from error
    return Place(socket.gethostname(), boot, namespace)


def process(pid: int) -> Process | None:
    """Return the live process that has this pid now, or None. A zombie is not alive."""
    stat = _stat(pid)
    return None if stat is None or stat.state in _DEAD else Process(pid, stat.ticks)


def is_alive(wanted: Process) -> bool:
    """Whether exactly this process still runs."""
    return process(wanted.pid) == wanted


def members(leader: Process, marker: str) -> frozenset[int]:
    """Return the pids, the leader's own excepted, that live in its session or carry the marker.

    The marker finds what left the session (`setsid`, `nohup … &`). Not found: a process that
    left the session *and* cleared its environment, or runs as another user there.
    """
    session = leader.pid if _number_is_ours(leader) else None
    return frozenset(
        stat.pid
        for stat in _everybody()
        if stat.pid != leader.pid and (stat.session == session or _carries(stat.pid, marker))
    )


@contextmanager
def held(wanted: Process) -> Iterator[int | None]:
    """Give a pidfd of exactly this process, or None when it is gone: no race with pid reuse."""
    try:
        handle = os.pidfd_open(wanted.pid)
    except OSError:
        yield None
        return
    try:
        yield handle if is_alive(wanted) else None
    finally:
        os.close(handle)


def send(wanted: Process, number: signal.Signals) -> bool:
    """Send a signal to exactly this process; False when it was gone before."""
    with held(wanted) as handle:
        if handle is None:
            return False
        try:
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
    return True


def _number_is_ours(leader: Process) -> bool:
    # The kernel keeps a session's number from reuse while the session has members. Somebody
    # else under that pid therefore proves that nobody of ours was left.
    stat = _stat(leader.pid)
    return stat is None or stat.ticks == leader.ticks


def _carries(pid: int, marker: str) -> bool:
    try:
        environ = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{MARKER}={marker}".encode() in environ.split(b"\0")


def _everybody() -> Iterator[_Stat]:
    for entry in PROC.iterdir():
        stat = _stat(int(entry.name)) if entry.name.isdigit() else None
        if stat is not None and stat.state not in _DEAD:
            yield stat


def _stat(pid: int) -> _Stat | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    return _Stat(pid, state=fields[0], session=int(fields[3]), ticks=int(fields[19]))
