"""The payment provider: a real HTTP server on the loopback interface.

``POST /holds`` (honours Idempotency-Key), ``POST /charges`` and ``POST /refunds`` (no key helps),
``POST /receipts`` (harmless to repeat), ``GET /charges?hold=`` (search, may lag).
For tests and drills: ``POST /control`` scripts faults and sets the lag and the memory for keys,
``GET /effects`` counts what was done, ``GET /requests`` lists what was asked.

    python -m examples.payments.provider --port 0 --ledger var/payments.jsonl

prints its address as one line. It trusts every local process: it is an example, not a service.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from examples.payments.bank import DEEDS, Answer, Bank, refusal
from examples.payments.faults import ROUTES, Fault, Route, Script

HOST = "127.0.0.1"
BODY_LIMIT = 1 << 20
REQUESTS_KEPT = 10_000
CLIENT_PATIENCE = 30.0  # seconds that a connection may stay silent


class Control(BaseModel):
    """The body of ``POST /control``. What is left out stays as it is; times are in seconds."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    script: dict[Route, list[Fault]] = {}
    lag: float | None = Field(default=None, ge=0)
    remembers: float | None = Field(default=None, ge=0)


class Provider(ThreadingHTTPServer):
    """The server and its state. ``port=0`` takes a free port; see ``url``."""

    daemon_threads = True
    request_queue_size = 128  # the default, 5, resets connections under a small burst

    def __init__(
        self,
        path: Path,
        *,
        port: int = 0,
        remembers: timedelta = timedelta(hours=24),
        lag: timedelta = timedelta(0),
    ) -> None:
        self.bank = Bank(path, remembers=remembers, lag=lag)
        self.script = Script()
        self.requests: deque[dict[str, Any]] = deque(maxlen=REQUESTS_KEPT)
        self.closing = threading.Event()
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}"

    def apply(self, control: Control) -> None:
        """Script faults and set times."""
        for route, faults in control.script.items():
            self.script.replace(route, faults)
        if control.lag is not None:
            self.bank.lag = timedelta(seconds=control.lag)
        if control.remembers is not None:
            self.bank.remembers = timedelta(seconds=control.remembers)


class _Handler(BaseHTTPRequestHandler):
    """One request a connection: a kept-alive one would hide dropped connections from clients."""

    server: Provider
    protocol_version = "HTTP/1.1"
    timeout = CLIENT_PATIENCE

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: ``GET /requests`` is the log."""

    def _serve(self, method: str) -> None:
        route = f"{method} {urlsplit(self.path).path}"
        body = self._body()
        if isinstance(body, Answer):
            self._send(body)
        elif route in ROUTES:
            self._serve_faulty(route, body)
        else:
            self._send(self._operate(route, body))

    def _serve_faulty(self, route: str, body: bytes) -> None:
        fault = self.server.script.next(route)
        with self.server.bank.receiving() if route in DEEDS else nullcontext():
            if self.server.closing.wait(fault.stall_before):
                return self._drop()
            answer = self._work(route, body) if fault.works else None
        self._note(route, fault, answer)
        if self.server.closing.wait(fault.stall_after) or fault.drop:
            return self._drop()
        return self._send(_spoilt(fault, answer))

    def _work(self, route: str, body: bytes) -> Answer:
        if route in DEEDS:
            return self.server.bank.do(
                route,
                body,
                key=self.headers.get("Idempotency-Key"),
                request_id=self.headers.get("X-Request-ID", ""),
            )
        hold = parse_qs(urlsplit(self.path).query).get("hold", [])
        if len(hold) != 1:
            return refusal(400, "invalid_request", "Say which hold: GET /charges?hold=ID.")
        return self.server.bank.search(hold[0])

    def _operate(self, route: str, body: bytes) -> Answer:
        if route == "GET /effects":
            return Answer(200, self.server.bank.effects())
        if route == "GET /requests":
            return Answer(200, list(self.server.requests))
        if route != "POST /control":
            return refusal(404, "unknown_route", f"There is no {route} here.")
        try:
            self.server.apply(Control.model_validate_json(body))
        except ValidationError as error:
            return refusal(400, "invalid_control", str(error))
        return Answer(200, {})

    def _note(self, route: str, fault: Fault, answer: Answer | None) -> None:
        self.server.requests.append(
            {
                "route": route,
                "key": self.headers.get("Idempotency-Key"),
                "request_id": self.headers.get("X-Request-ID"),
                "traceparent": self.headers.get("traceparent"),
                "worked": answer is not None and answer.status < 400,
                "fault": fault.model_dump(exclude_defaults=True),
            }
        )

    def _body(self) -> bytes | Answer:
        """The request's body, or the answer that refuses it."""
        length = self.headers.get("Content-Length", "0")
        if self.headers.get("Transfer-Encoding") or not length.isdecimal():
            return refusal(411, "length_required", "Send the body with a Content-Length.")
        if int(length) > BODY_LIMIT:
            return refusal(413, "too_large", f"A body may have {BODY_LIMIT} bytes.")
        return self.rfile.read(int(length))

    def _send(self, answer: Answer) -> None:
        text = isinstance(answer.body, str)
        body = answer.body.encode() if text else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "text/plain" if text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.send_header("Request-Id", f"req_{secrets.token_hex(8)}")
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


def _spoilt(fault: Fault, answer: Answer | None) -> Answer:
    """What the client gets: the true answer, or the scripted one."""
    if fault.status is not None:
        known = {"code": "scripted", "detail": HTTPStatus(fault.status).phrase}
        told = Answer(fault.status, known if fault.body is None else fault.body)
    else:
        told = answer or refusal(500, "not_done", "This call was told to do nothing.")
    if fault.retry_after is None:
        return told
    return Answer(told.status, told.body, told.headers | {"Retry-After": str(fault.retry_after)})


@contextmanager
def running(
    path: Path,
    *,
    port: int = 0,
    remembers: timedelta = timedelta(hours=24),
    lag: timedelta = timedelta(0),
) -> Iterator[Provider]:
    """The provider on a thread of this process; stalled calls are dropped when it ends."""
    provider = Provider(path, port=port, remembers=remembers, lag=lag)
    thread = threading.Thread(target=provider.serve_forever, args=(0.05,), name="payments-provider")
    thread.start()
    try:
        yield provider
    finally:
        provider.closing.set()
        provider.shutdown()
        thread.join()
        provider.server_close()


def main() -> int:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m examples.payments.provider")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--ledger", type=Path, required=True, help="file that keeps every effect")
    parser.add_argument("--remembers", type=float, default=86_400.0, help="seconds a key is known")
    parser.add_argument("--lag", type=float, default=0.0, help="seconds until a charge is found")
    options = parser.parse_args()
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    remembers, lag = timedelta(seconds=options.remembers), timedelta(seconds=options.lag)
    with running(options.ledger, port=options.port, remembers=remembers, lag=lag) as provider:
        sys.stdout.write(f"{provider.url}\n")
        sys.stdout.flush()
        signal.sigwait(stops)
    return 0


if __name__ == "__main__":
    sys.exit(main())
