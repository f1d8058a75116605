"""A real state server for Terraform's http backend, on loopback, that can be told to fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from provisioning.terraform.stack import Backend


class StateServer:
    """Keeps one state and its lock; `answers[method] = code` makes that method fail."""

    def __init__(self) -> None:
        self.state: bytes | None = None
        self.lock: bytes | None = None
        self.answers: dict[str, int] = {}
        self.asked: list[str] = []
        self.url = ""

    def backend(self) -> Backend:
        """Return the backend for a stack; gives up at once, so that tests do not wait."""
        address = dict.fromkeys(("address", "lock_address", "unlock_address"), self.url)
        return Backend("http", address | {"retry_max": "0"})

    def reply(self, method: str, body: bytes) -> tuple[int, bytes]:
        """Answer one request as a well-behaved server would, unless told otherwise."""
        self.asked.append(method)
        if method in self.answers:
            return self.answers[method], b""
        match method:
            case "GET":
                return (204, b"") if self.state is None else (200, self.state)
            case "POST":
                self.state = body
            case "LOCK" if self.lock is not None:
                return 423, self.lock
            case "LOCK":
                self.lock = body
            case "UNLOCK":
                self.lock = None
        return 200, b""


@contextmanager
def state_server() -> Iterator[StateServer]:
    """Run a state server as long as the block runs."""
    server = StateServer()
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    server.url = f"http://127.0.0.1:{http.server_port}/state"
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def _handler(server: StateServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    def do(handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        code, answer = server.reply(handler.command, body)
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    for method in ("GET", "POST", "LOCK", "UNLOCK"):
        setattr(Handler, f"do_{method}", do)
    return Handler
