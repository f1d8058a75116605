"""How is the tool started, waited for, interrupted once, and killed?

Adoption, not a death signal. When the worker dies, its supervisor (own session, see
supervisor.py) stays with the tool and records how it ended; a later worker on the same host
reads that. The alternative, PR_SET_PDEATHSIG with SIGINT, was refused for three reasons:

* an apply that is interrupted half-way needs a person; one that finishes unobserved does not;
* it would be a second sender beside a cancel, and a second interrupt makes Terraform give up at
  once: lock held, state not written;
* it follows the *thread* that forked and is cleared by exec of a set-uid binary.

Its price: the worker's death does not end the apply, so nobody may say "nothing happened"
before `fate.group_is_empty`. A container that dies takes the supervisor along: *lost*.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGINT, SIGKILL
from uuid import uuid4

from provisioning.terraform import host, records
from provisioning.terraform.environment import environment
from provisioning.terraform.errors import AlreadyStarted, UnsupportedHost
from provisioning.terraform.fate import Fate, look, seal, start_of

_ROOT = Path(__file__).parents[2]
_TICK = 0.25  # seconds between two looks at a running tool
_ASKED_TO_STOP = b"Interrupt received"
_SECONDS_TO_EXIT = 5  # for a supervisor that has written its last record
# The supervisors that this process started, by run: they are its children until it reaps them.
_children: dict[Path, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute, where, and with which whole environment."""

    argv: tuple[str, ...]
    cwd: Path
    environ: Mapping[str, str] = field(repr=False)


def start(run: Path, command: Command) -> None:
    """Start the command under a supervisor; returns once its process is on record.

    Exactly one start ever succeeds for a run directory: raises AlreadyStarted for all others.
    Raises UnsupportedHost where runs cannot be supervised. A tool that cannot be executed is
    no error here: the run's fate says so.
    """
    host.here()
    run.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        run.mkdir(mode=0o700)
    except FileExistsError:
        raise AlreadyStarted(run) from None
    marker = uuid4().hex
    child = _children[run] = _supervise(run)
    _hand_over(child, command, marker)
    start = start_of(run)
    if start is None or start.marker != marker:
        _reap(run)
        if start is not None or not seal(run):
            raise AlreadyStarted(run)
        raise UnsupportedHost(
            "Nothing was started: the supervisor could not run. Check that this worker's Python "
            "and the disk under its folder work, then retry."
        )


def wait(run: Path, seconds: float, *, until: Callable[[], bool] = lambda: False) -> Fate:
    """Wait until the run is over, `until()` says so, or the time is up; return its fate.

    `until` is asked several times a second. What it raises passes through, and the run goes on.
    """
    ends = time.monotonic() + seconds
    while not (fate := look(run)).is_over:
        left = ends - time.monotonic()
        if left <= 0 or until():
            return fate
        _pause(run, min(_TICK, left))
    _reap(run)
    return fate


def interrupt(run: Path) -> bool:
    """Ask the tool to stop gracefully: one SIGINT to its process, once in the run's life.

    True when this call sent it. False when one was sent before by anybody on this record, when
    the tool says it got one from elsewhere, when it has not begun to speak (an interrupt before
    it listens would kill it), or when it is gone. The record is written before the signal: a
    crash in between means no interrupt, never two.
    """
    tool = _tool(run)
    said = (run / records.STDOUT).read_bytes() if tool is not None else b""
    if tool is None or not said or _ASKED_TO_STOP in said or not host.is_alive(tool):
        return False
    try:
        records.write_new(run / records.INTERRUPT, {"signal": "SIGINT"})
    except FileExistsError:
        return False
    return host.send(tool, SIGINT)


def kill(run: Path) -> None:
    """SIGKILL everything the run started, but not its supervisor, which records the end.

    Of an apply this leaves an uncertain outcome and perhaps a held state lock; nothing in this
    package calls it for an apply.
    """
    start = start_of(run)
    if start is None or start.place != host.here():
        return
    for process in map(host.process, host.members(start.supervisor, start.marker)):
        if process is not None:
            host.send(process, SIGKILL)


def finish(run: Path, command: Command, *, seconds: float, grace: float = 20) -> Fate:
    """Run a command without effects to its end: interrupted when its time is up, then killed."""
    start(run, command)
    fate = wait(run, seconds)
    if not fate.is_over and interrupt(run):
        fate = wait(run, grace)
    if not fate.is_over:
        kill(run)
        fate = wait(run, grace)
    return fate


def was_interrupted(run: Path) -> bool:
    """Whether this package sent the run its interrupt."""
    return (run / records.INTERRUPT).exists()


def _supervise(run: Path) -> subprocess.Popen[bytes]:
    # -E and -s: nobody's PYTHONPATH or user packages take part. cwd finds the package itself.
    log = (run / "supervisor.log").open("wb")
    try:
        return subprocess.Popen(
            [sys.executable, "-E", "-s", "-m", "provisioning.terraform.supervisor", run.absolute()],
            cwd=_ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    except OSError as error:
        raise UnsupportedHost(
            f"Nothing was started: {sys.executable} cannot be executed ({error.strerror}). "
            "Check the worker's installation."
        ) from error
    finally:
        log.close()


def _hand_over(child: subprocess.Popen[bytes], command: Command, marker: str) -> None:
    if child.stdin is None or child.stdout is None:
        raise RuntimeError("the supervisor has no pipes")
    spoken = {
        "argv": list(command.argv),
        "cwd": str(command.cwd),
        "environ": {**command.environ, host.MARKER: marker},
        "marker": marker,
    }
    with child.stdin, child.stdout:
        try:
            child.stdin.write(json.dumps(spoken).encode())
            child.stdin.close()
        except BrokenPipeError:
            return
        child.stdout.read()  # ends when the supervisor has recorded the start, or died


def _tool(run: Path) -> host.Process | None:
    start = start_of(run)
    record = records.read(run / records.TOOL)
    if start is None or record is None or start.place != host.here():
        return None
    return host.Process(**record)


def _pause(run: Path, seconds: float) -> None:
    """Sleep until the supervisor ends, at most this long."""
    start = start_of(run)
    if start is None:
        return
    with host.held(start.supervisor) as handle:
        if handle is not None:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(seconds * 1000)


def _reap(run: Path) -> None:
    child = _children.get(run)
    if child is not None:
        with suppress(subprocess.TimeoutExpired):
            child.wait(_SECONDS_TO_EXIT)
            del _children[run]
