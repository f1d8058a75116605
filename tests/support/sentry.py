"""A Sentry of a test's own: an HTTP server that takes envelopes and keeps what is in them."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Sentry:
    """``items`` are (type, payload) in the order they came; ``raw`` is every byte of them."""

    dsn: str
    items: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [payload for kind, payload in self.items if kind == "event"]

    def of_job(self, job_id: object) -> list[dict[str, Any]]:
        """The events that name a job anywhere."""
        return [event for event in self.events if str(job_id) in json.dumps(event)]

    def take(self, envelope: bytes) -> None:
        """Keep the items of one envelope."""
        self.raw.append(envelope.decode())
        _envelope_header, _, rest = envelope.partition(b"\n")
        while rest.strip():
            head, _, rest = rest.partition(b"\n")
            item = json.loads(head)
            length = item.get("length", rest.find(b"\n"))
            payload, rest = rest[:length], rest[length:].lstrip(b"\n")
            self.items.append((item["type"], json.loads(payload)))


@contextmanager
def sentry() -> Iterator[Sentry]:
    """Run one on a port of this machine."""
    told: Sentry

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            assert self.path == "/api/1/envelope/"
            told.take(gzip.decompress(body) if packed else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told = Sentry(f"http://key@127.0.0.1:{server.server_port}/1")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()
