"""A receiver of webhooks on this machine: it answers as it is told and counts what it was sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from typing import Any


@dataclass(frozen=True)
class Got:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def message_id(self) -> str:
        return self.headers["webhook-id"]


@dataclass(frozen=True)
class Says:
    """One answer. ``status`` 0 breaks the connection off; ``seconds`` is how long it takes."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    seconds: float = 0.0


@dataclass
class Receiver:
    """Answers with ``script`` in turn, then with its last answer for ever."""

    port: int = 0
    script: list[Says] = field(default_factory=lambda: [Says()])
    got: list[Got] = field(default_factory=list)
    hold: threading.Event | None = None
    at_once: int = 0
    most_at_once: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=hunter2-in-the-url"

    @property
    def ids(self) -> list[str]:
        return [one.message_id for one in self.got]

    def answers(self, *script: Says | int) -> None:
        self.script = [Says(one) if isinstance(one, int) else one for one in script]

    def take(self, got: Got) -> Says:
        with self._lock:
            self.got.append(got)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            said = self.script[0]
            if len(self.script) > 1:
                self.script = self.script[1:]
        if self.hold is not None:
            self.hold.wait(30)
        if said.seconds:
            threading.Event().wait(said.seconds)
        with self._lock:
            self.at_once -= 1
        return said


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver on a free port, until the block ends."""
    mine = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            said = mine.take(Got(self.path, headers, self.rfile.read(length), time.time()))
            if not said.status:
                self.connection.close()
                return
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def finish(self) -> None:
            try:
                super().finish()
            except (OSError, ValueError):
                pass  # the other side is gone, or we broke off

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    mine.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield mine
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def admitted(settings: Any) -> Iterator[Receiver]:
    """A receiver that webhooks may be sent to, though it is on this machine."""
    settings.WEBHOOK_ALLOW_HTTP = True
    settings.WEBHOOK_ALLOW_NETWORKS = [ip_network("127.0.0.0/8")]
    with receiver() as one:
        yield one
