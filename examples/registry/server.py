"""The registry of workspaces: a real HTTP server on the loopback interface.

``POST /registrations`` registers, and answers the same for the same ``Idempotency-Key``;
``GET /registrations`` lists. For tests, drills and the demo ``POST /control`` scripts the faults
that the next calls meet (examples/payments/faults.py says what they can be), and
``GET /requests`` lists what was asked.

    python -m examples.registry.server --port 0 --ledger var/registry.jsonl

prints its address as one line. It trusts every local process: it is an example, not a service.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from examples.payments.bank import Answer, refusal
from examples.payments.faults import Fault, Script
from examples.registry.book import Book

HOST = "127.0.0.1"
ROUTE = "POST /registrations"
BODY_LIMIT = 1 << 16
REQUESTS_KEPT = 1000
CLIENT_PATIENCE = 30.0  # seconds that a connection may stay silent
_FAULTS = TypeAdapter(list[Fault])


class Registry(ThreadingHTTPServer):
    """The server and its state. ``port=0`` takes a free port; see ``url``."""

    daemon_threads = True

    def __init__(self, path: Path, *, port: int = 0) -> None:
        self.book = Book(path)
        self.script = Script()
        self.requests: deque[dict[str, Any]] = deque(maxlen=REQUESTS_KEPT)
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    """One request a connection."""

    server: Registry
    protocol_version = "HTTP/1.1"
    timeout = CLIENT_PATIENCE

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: ``GET /requests`` is the log."""

    def _serve(self, method: str) -> None:
        length = self.headers.get("Content-Length", "0")
        body = self.rfile.read(min(int(length), 2 * BODY_LIMIT) if length.isdecimal() else 0)
        if len(body) > BODY_LIMIT:
            return self._send(refusal(413, "too_large", f"A body may have {BODY_LIMIT} bytes."))
        route = f"{method} {self.path}"
        if route == ROUTE:
            return self._register(body)
        if route == "POST /control":
            return self._send(self._controlled(body))
        if route == "GET /registrations":
            return self._send(Answer(200, self.server.book.registrations()))
        if route == "GET /requests":
            return self._send(Answer(200, list(self.server.requests)))
        return self._send(refusal(404, "unknown_route", f"There is no {route} here."))

    def _register(self, body: bytes) -> None:
        fault = self.server.script.next(ROUTE)
        key, request_id = self.headers.get("Idempotency-Key"), self.headers.get("X-Request-ID", "")
        answer = None
        if fault.works:
            answer = self.server.book.register(body, key=key, request_id=request_id)
        trace = {"request_id": request_id, "traceparent": self.headers.get("traceparent")}
        self.server.requests.append({"key": key, **trace, "worked": fault.works})
        if fault.drop:
            return self._drop()
        if fault.status is not None:
            answer = refusal(fault.status, "scripted", "This answer was asked for.")
        return self._send(answer or refusal(500, "not_done", "Nothing was done."), fault)

    def _controlled(self, body: bytes) -> Answer:
        try:
            self.server.script.replace(ROUTE, _FAULTS.validate_json(body))
        except ValidationError as error:
            return refusal(400, "invalid_control", str(error))
        return Answer(200, {})

    def _send(self, answer: Answer, fault: Fault | None = None) -> None:
        body = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        if fault is not None and fault.retry_after is not None:
            self.send_header("Retry-After", str(fault.retry_after))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.close_connection = True
        with suppress(OSError):  # a client that has given up changes nothing here
            self.end_headers()
            self.wfile.write(body)

    def _drop(self) -> None:
        self.close_connection = True
        with suppress(OSError):  # the client may be gone already
            self.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def running(path: Path, *, port: int = 0) -> Iterator[Registry]:
    """The registry on a thread of this process."""
    registry = Registry(path, port=port)
    thread = threading.Thread(target=registry.serve_forever, args=(0.05,), name="registry")
    thread.daemon = True
    thread.start()
    try:
        yield registry
    finally:
        registry.shutdown()
        thread.join()
        registry.server_close()


def main() -> int:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m examples.registry.server")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--ledger", type=Path, required=True, help="file that keeps every line")
    options = parser.parse_args()
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    with running(options.ledger, port=options.port) as registry:
        sys.stdout.write(f"{registry.url}\n")
        sys.stdout.flush()
        signal.sigwait(stops)
    return 0


if __name__ == "__main__":
    sys.exit(main())
