"""Webhooks as a workspace meets them: endpoints well, dead and slow, and their receiver."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from typing import Any

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
django.setup()

from django.db import transaction  # noqa: E402

from jobs.events import emit  # noqa: E402
from webhooks import endpoints  # noqa: E402
from webhooks.egress import send, target_of  # noqa: E402
from webhooks.models import Message, WebhookDelivery  # noqa: E402
from webhooks.signing import new_secret, sign  # noqa: E402
from workspaces.actors import SYSTEM  # noqa: E402
from workspaces.models import Workspace  # noqa: E402

SLOW_SECONDS = 3.0
EVENT = "job.retried"
_got: list[tuple[str, str, float]] = []  # path, message, moment
_told: dict[str, float] = {}  # message, moment


class _Handler(BaseHTTPRequestHandler):
    """Takes everything; under ``/slow/`` only after a while."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        _got.append((self.path, self.headers["webhook-id"], time.time()))
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


_server = _Server(("127.0.0.1", 0), _Handler)
threading.Thread(target=_server.serve_forever, daemon=True).start()
PORT = int(_server.server_address[1])
NOBODY = 1  # a port that nothing listens on


def prepare(slug: str, well: int, dead: int, slow: int) -> None:
    """A workspace with so many endpoints of each sort."""
    workspace = Workspace.objects.create(slug=slug, name=slug)
    urls = [f"http://127.0.0.1:{PORT}/well/{slug}/{n}" for n in range(well)]
    urls += [f"http://127.0.0.1:{NOBODY}/dead/{slug}/{n}" for n in range(dead)]
    urls += [f"http://127.0.0.1:{PORT}/slow/{slug}/{n}" for n in range(slow)]
    for url in urls:
        endpoints.create(workspace, url=url, events=[EVENT], actor=SYSTEM)


def tell(slug: str, count: int) -> None:
    """So many events, one after the other, each in a transaction of its own."""
    workspace = Workspace.objects.get(slug=slug)
    for number in range(count):
        with transaction.atomic():
            event = emit(EVENT, workspace, f"subject-{number}", {"kind": "bench.noop"})
        _told[Message.objects.values_list("pk", flat=True).get(event_id=event.pk)] = time.time()


def taken(slug: str) -> int:
    """How many different messages the well endpoints of the workspace have."""
    return len({(path, name) for path, name, _at in _got if path.startswith(f"/well/{slug}/")})


def waits(slug: str) -> list[float]:
    """Seconds from each event to its first request at each well endpoint, the newest events'."""
    first: dict[tuple[str, str], float] = {}
    for path, name, at in _got:
        if path.startswith(f"/well/{slug}/"):
            first.setdefault((path, name), at)
    return [at - _told[name] for (_path, name), at in first.items()]


def forget() -> None:
    """Count from here on."""
    _got.clear()


def span() -> float:
    """Seconds between the first and the last request."""
    moments = [at for _path, _name, at in _got]
    return max(moments) - min(moments)


def states(slug: str) -> dict[str, int]:
    """How many deliveries have each status."""
    found: dict[str, int] = {}
    for status in WebhookDelivery.objects.filter(workspace__slug=slug).values_list(
        "status", flat=True
    ):
        found[status] = found.get(status, 0) + 1
    return found


def bare(count: int, processes: int) -> float:
    """Requests a second of as many processes that sign and send and keep nothing."""
    each = count // processes
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        begun = time.perf_counter()
        pool.map(_bare, [each] * processes)
        return each * processes / (time.perf_counter() - begun)


def _bare(count: int) -> None:
    secret, body = new_secret(), b'{"type":"job.retried","data":{}}'
    target = target_of(f"http://127.0.0.1:{PORT}/well/bare/0", allow_http=True)
    networks = [ip_network("127.0.0.0/8")]
    for number in range(count):
        now = int(time.time())
        headers = {
            "content-type": "application/json",
            "webhook-id": f"msg_{number}",
            "webhook-timestamp": str(now),
            "webhook-signature": sign([secret], f"msg_{number}", now, body),
        }
        if send(target, headers, body, allow=networks).status != 200:
            raise RuntimeError("the receiver did not take it")
