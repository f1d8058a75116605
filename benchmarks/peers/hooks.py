"""Webhooks as a workspace meets them: endpoints well, dead and slow, and their receiver."""

from __future__ import annotations

import multiprocessing
import os
import time

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
django.setup()

from django.db import transaction  # noqa: E402

from benchmarks.peers import receiver  # noqa: E402
from benchmarks.peers.hooks_raw import deliver  # noqa: E402
from jobs.events import emit  # noqa: E402
from webhooks import endpoints  # noqa: E402
from webhooks.models import Message, WebhookDelivery  # noqa: E402
from webhooks.signing import new_secret  # noqa: E402
from workspaces.actors import SYSTEM  # noqa: E402
from workspaces.models import Workspace  # noqa: E402

EVENT = "job.retried"
_told: dict[str, float] = {}  # message, moment
PORT = receiver.start()
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
    return receiver.count(f"/well/{slug}")


def waits(slug: str) -> list[float]:
    """Seconds from each event to its first request at each well endpoint, the newest events'."""
    first: dict[tuple[str, str], float] = {}
    for path, name, at in receiver.got:
        if path.startswith(f"/well/{slug}/"):
            first.setdefault((path, name), at)
    return [at - _told[name] for (_path, name), at in first.items()]


def forget() -> None:
    """Count from here on."""
    receiver.forget()


def span() -> float:
    """Seconds between the first and the last request."""
    return receiver.span()


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
    secret, url = new_secret(), f"http://127.0.0.1:{PORT}/well/bare/0"
    for number in range(count):
        deliver.run(url, secret, f"msg_{number}")
