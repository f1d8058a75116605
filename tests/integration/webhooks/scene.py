"""Endpoints, events that they are told of, and deliveries carried out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from alerts.models import Alert
from jobs import gates, runner
from jobs.events import emit
from jobs.models import Gate, Job
from tests.support.receiver import Receiver
from webhooks import endpoints
from webhooks.models import DeliveryAttempt, Endpoint, WebhookDelivery
from webhooks.states import FAST
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

TOLD = "job.retried"
DATA = {"verb": "resume", "state": "finished", "counts": {"done": 3}}


def endpoint(
    workspace: Workspace, hook: Receiver, events: Sequence[str] = (TOLD,), **more: Any
) -> Endpoint:
    return endpoints.create(workspace, url=hook.url, events=events, actor=SYSTEM, **more)[0]


def tell(workspace: Workspace, event_type: str = TOLD, **data: Any) -> int:
    """Emit an event; its id."""
    with transaction.atomic():
        return emit(event_type, workspace, "subject-1", {**DATA, **data}).pk


def delivery(**where: Any) -> WebhookDelivery:
    """The only one."""
    return WebhookDelivery.objects.get(**where)


def deliveries() -> list[WebhookDelivery]:
    return list(WebhookDelivery.objects.order_by("created_at", "pk"))


def job_of(one: WebhookDelivery) -> Job:
    one.refresh_from_db()
    assert one.job_id is not None
    return Job.objects.get(pk=one.job_id)


def attempt(one: WebhookDelivery) -> WebhookDelivery:
    """One execution of its job, whatever it had to wait for by the clock."""
    job = job_of(one)
    Job.objects.filter(pk=job.pk, state="queued").update(run_at=Now())
    runner.execute(job.kind, job.pk)
    one.refresh_from_db()
    return one


def attempts(one: WebhookDelivery, most: int = 6) -> WebhookDelivery:
    """Executions until it has ended."""
    for _ in range(most):
        if attempt(one).status != "open":
            return one
    raise AssertionError(f"not ended after {most} executions")


def waits(one: WebhookDelivery) -> float:
    """Seconds until the next request."""
    job = Job.objects.annotate(left=F("run_at") - Now()).get(pk=job_of(one).pk)
    return float(job.left.total_seconds())


def probe() -> bool:
    """The moment of the next probe comes; whether somebody was let through."""
    Gate.objects.update(probe_at=Now() - timedelta(seconds=1))
    with transaction.atomic():
        return any(gates.let_one_through(gate) for gate in gates.to_probe())


def failing(workspace: Workspace, one: Endpoint, hook: Receiver) -> Endpoint:
    """The endpoint after a final failure."""
    hook.answers(400)
    tell(workspace)
    newest = WebhookDelivery.objects.filter(endpoint=one).latest("pk")
    attempts(newest)
    one.refresh_from_db()
    assert one.state == "failing"
    return one


def known(one: Endpoint) -> Endpoint:
    """An endpoint that has answered quickly before."""
    Endpoint.objects.filter(pk=one.pk).update(lane=FAST)
    one.refresh_from_db()
    return one


def codes(one: WebhookDelivery) -> list[str]:
    rows = DeliveryAttempt.objects.filter(delivery=one).order_by("pk")
    return list(rows.values_list("code", flat=True))


def alert() -> Alert:
    return Alert.objects.get(rule="webhook_endpoint", state="open")
