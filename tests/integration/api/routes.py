"""Every address of the API with every method it takes, found in the URL conf itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models.functions import Now
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from jobs.models import Job, Operation
from jobs.recovery.draft import draft
from tests.drills.kinds import repeatable
from tests.integration.api.jobs_scene import dead
from webhooks import bodies, endpoints
from webhooks.models import Message, WebhookDelivery
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

CANARY = "4111-canary-1111"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Route:
    """An address with a method. `view` is None where it is no class of ours."""

    name: str
    method: str
    params: tuple[str, ...]
    view: Any

    def __str__(self) -> str:
        return f"{self.method} {self.name}"

    def url(self, workspace: Workspace, ids: Mapping[str, object]) -> str:
        given = {"slug": workspace.slug, **ids}
        return reverse(self.name, kwargs={name: given[name] for name in self.params})


def _walk(patterns: list[Any], at: str = "", params: tuple[str, ...] = ()) -> Iterator[Route]:
    for pattern in patterns:
        found, here = params + tuple(pattern.pattern.converters), at + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, here, found)
        elif isinstance(pattern, URLPattern) and here.startswith("api/"):
            view: Any = getattr(pattern.callback, "view_class", None)
            for method in METHODS if view else ("GET",):
                if view is None or hasattr(view, method.lower()):
                    yield Route(str(pattern.name or here), method, found, view)


EVERY = list(_walk(get_resolver().url_patterns))
ROUTES = [route for route in EVERY if "slug" in route.params]
"""Those of one workspace."""


def things_of(workspace: Workspace, ledger: str) -> dict[str, object]:
    """One of each thing that an address can name, with a secret in it."""
    job = dead(repeatable.s(ledger=ledger), workspace, "first", key="dead")
    return ids_of(workspace, job)


def ids_of(workspace: Workspace, job: Job) -> dict[str, object]:
    delivery = delivered(workspace)
    return {
        "job_id": job.pk,
        "operation_id": drafted(workspace, job).pk,
        "endpoint_id": delivery.endpoint_id,
        "delivery_id": delivery.pk,
    }


def delivered(workspace: Workspace) -> WebhookDelivery:
    """A delivery that was taken, of an endpoint with a secret header."""
    endpoint, _secret = endpoints.create(
        workspace,
        url="https://hooks.example.com/here",
        events=["job.retried"],
        headers={"X-Key": CANARY},
        actor=SYSTEM,
    )
    message = Message.objects.create(
        id=bodies.new_id(), workspace=workspace, type="job.retried", body=b"{}"
    )
    return WebhookDelivery.objects.create(
        workspace=workspace,
        endpoint=endpoint,
        message=message,
        status="succeeded",
        finished_at=Now(),
    )


def drafted(workspace: Workspace, job: Job) -> Operation:
    return draft(workspace, "resume", actor=SYSTEM, ids=[str(job.pk)])
