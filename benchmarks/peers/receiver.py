"""The receiver of webhooks that benchmarks count at; it lives in the process of a client."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SLOW_SECONDS = 3.0
got: list[tuple[str, str, float]] = []  # path, message, moment
_different: dict[str, set[tuple[str, str]]] = {}  # by all of the path but its end


class _Handler(BaseHTTPRequestHandler):
    """Takes everything; under ``/slow/`` only after a while."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = self.headers["webhook-id"]
        got.append((self.path, message, time.time()))
        _different.setdefault(self.path.rpartition("/")[0], set()).add((self.path, message))
        if self.path.startswith("/slow/"):
            threading.Event().wait(SLOW_SECONDS)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True


def start() -> int:
    """Begin to receive in a thread; the port."""
    server = _Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def count(folder: str) -> int:
    """How many different messages came below a path; asked often, beside the requests."""
    return len(_different.get(folder, ()))


def forget() -> None:
    """Count from here on."""
    got.clear()
    _different.clear()


def span() -> float:
    """Seconds between the first and the last request."""
    moments = [at for _path, _name, at in got]
    return max(moments) - min(moments)
