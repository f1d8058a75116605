"""One server process: started, stopped, killed, frozen, started again on its data."""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 30.0
STOP_SECONDS = 20.0
PR_SET_PDEATHSIG = 1


class NoServer(Exception):
    """A server cannot be had here, or did not start; the message says what to do."""


@dataclass(frozen=True)
class RunAs:
    """Whom a server runs as; all ``None`` is the present user."""

    user: int | None = None
    group: int | None = None
    extra_groups: tuple[int, ...] | None = None


@dataclass
class Server:
    """A server's handle. ``url`` stays the same over stops and starts."""

    name: str
    url: str
    folder: Path
    command: Sequence[str]
    ready: Callable[[], bool]
    stop_signal: signal.Signals
    run_as: RunAs = field(default_factory=RunAs)
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def pid(self) -> int:
        """Process id of the running server; raises ``NoServer`` when it does not run."""
        if self.process is None:
            raise NoServer(f"{self.name} is not running.")
        return self.process.pid

    def start(self) -> None:
        """Start the server and wait until it answers; raises ``NoServer`` with its log."""
        with open(self.folder / "log", "ab") as log:
            # A session of its own, so that Ctrl-C reaches the test run alone; an output of its
            # own, since a server that keeps the caller's pipe open would keep `make | tee` alive.
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_die_with_parent(self.stop_signal),
                user=self.run_as.user,
                group=self.run_as.group,
                extra_groups=self.run_as.extra_groups,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise NoServer(f"{self.name} did not start:\n{self.log()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Shut the server down in order; does nothing when it does not run."""
        if self.process is None:
            return
        self.thaw()
        _send([self.process.pid], self.stop_signal)
        try:
            self.process.wait(STOP_SECONDS)
            self.process = None
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL the server and its children, as when a machine loses its power."""
        if self.process is None:
            return
        _send(family(self.process.pid), signal.SIGKILL)
        self.process.wait()
        self.process = None

    def freeze(self) -> None:
        """SIGSTOP the server and its children: connections stay open and nothing answers."""
        _send(family(self.pid), signal.SIGSTOP)

    def thaw(self) -> None:
        """Undo ``freeze``."""
        _send(family(self.pid), signal.SIGCONT)

    def log(self) -> str:
        """What the server printed so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Run ``server`` for the block."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def folder_for(run_as: RunAs) -> Iterator[Path]:
    """A private folder that ``run_as`` owns, removed afterwards."""
    # Directly in /tmp: the path of a Unix socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="firedoor-", dir="/tmp"))
    try:
        give(folder, run_as)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def give(folder: Path, run_as: RunAs) -> None:
    """Make ``run_as`` the owner of ``folder`` and all in it."""
    if run_as.user is None or run_as.group is None:
        return
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, run_as.user, run_as.group, follow_symlinks=False)


def unprivileged() -> RunAs:
    """Whom root starts a server as that refuses root; the present user if that is not root."""
    if os.geteuid() != 0:
        return RunAs()
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return RunAs(entry.pw_uid, entry.pw_gid, ())
    raise NoServer("PostgreSQL does not run as root and there is no user postgres or nobody.")


def run(command: Sequence[str], folder: Path, run_as: RunAs) -> None:
    """Run a program to its end; raises ``NoServer`` with its output when it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        user=run_as.user,
        group=run_as.group,
        extra_groups=run_as.extra_groups,
    )
    if done.returncode != 0:
        raise NoServer(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


def family(pid: int) -> list[int]:
    """``pid`` and its descendants; PostgreSQL's children lead sessions of their own."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(descendant for child in children for descendant in family(int(child)))]


def _send(pids: list[int], with_signal: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, with_signal)


def _die_with_parent(with_signal: signal.Signals) -> Callable[[], None] | None:
    """What asks the kernel, in the child, to end it when its parent thread ends."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, int(with_signal))

    return ask
