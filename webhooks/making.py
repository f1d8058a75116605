"""How deliveries are made: rows, and a job each for those that are to be sent."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import statements
from jobs.enqueue import enqueue_many
from jobs.models import Job
from webhooks import backlog
from webhooks.kinds import deliver
from webhooks.lanes import look_again
from webhooks.models import Endpoint, Message, WebhookDelivery
from webhooks.states import DeliveryState, EndpointState, Trigger
from workspaces.actors import SYSTEM, Actor
from workspaces.sql import as_uuid

_INSERT = """INSERT INTO webhooks_webhookdelivery (id, workspace_id, endpoint_id, message_id,
  status, sends, finished_at)
SELECT r.id, %(workspace)s, r.endpoint, %(message)s, r.status, 0,
  CASE WHEN r.status = 'skipped' THEN @now END
FROM unnest(%(ids)s::uuid[], %(endpoints)s::uuid[], %(statuses)s::text[])
  AS r(id, endpoint, status)
ON CONFLICT DO NOTHING RETURNING id"""
_WRITE_JOBS = """UPDATE webhooks_webhookdelivery d
SET job_id = r.job, sends = sends + 1, status = 'open', finished_at = NULL
FROM unnest(%(deliveries)s::uuid[], %(jobs)s::uuid[]) AS r(delivery, job) WHERE d.id = r.delivery"""


def make_deliveries(message: Message, endpoints: Iterable[Endpoint]) -> None:
    """One for each endpoint, in the caller's transaction; those that are there are left alone.

    A disabled endpoint gets a row that says ``skipped``, and so does one with too many waiting,
    which an alert tells of.
    """
    given = list(endpoints)
    full = backlog.full(given)
    fresh = [_new(message, endpoint, full=endpoint.pk in full) for endpoint in given]
    written = _written(message, fresh)
    made = [one for one in fresh if one.pk in written and one.status == DeliveryState.OPEN]
    send(made, Trigger.AUTOMATIC)
    seen = {one.endpoint_id: one.endpoint.lane for one in made}
    transaction.on_commit(lambda: look_again(message.workspace_id, seen), robust=True)
    for endpoint in given:
        if endpoint.pk in full and endpoint.state != EndpointState.DISABLED:
            backlog.say_full(endpoint)


def _new(message: Message, endpoint: Endpoint, *, full: bool) -> WebhookDelivery:
    skipped = full or endpoint.state == EndpointState.DISABLED
    return WebhookDelivery(
        workspace_id=message.workspace_id,
        endpoint=endpoint,
        message=message,
        status=DeliveryState.SKIPPED if skipped else DeliveryState.OPEN,
        finished_at=Now() if skipped else None,
    )


def _written(message: Message, fresh: list[WebhookDelivery]) -> set[uuid.UUID]:
    """Insert those that are not there yet; their ids. Django's bulk insert costs three times it."""
    if connection.vendor != "postgresql":
        WebhookDelivery.objects.bulk_create(fresh, ignore_conflicts=True)
        mine = WebhookDelivery.objects.filter(pk__in=[one.pk for one in fresh])
        return set(mine.values_list("pk", flat=True))
    params = {
        "workspace": message.workspace_id,
        "message": message.pk,
        "ids": [one.pk for one in fresh],
        "endpoints": [one.endpoint_id for one in fresh],
        "statuses": [str(one.status) for one in fresh],
    }
    return {as_uuid(row[0]) for row in statements.send(_INSERT, params)}


def send(
    deliveries: list[WebhookDelivery],
    trigger: Trigger,
    *,
    actor: Actor = SYSTEM,
    request_id: str = "",
) -> list[Job]:
    """Give each delivery its next job, in the caller's transaction, which made or locked them.

    The key counts the jobs of a delivery: asked twice at the same count it is one job.
    """
    if not deliveries:
        return []
    intents = [
        (
            deliver.s(
                endpoint_id=str(one.endpoint_id), delivery_id=str(one.pk), trigger=trigger.value
            ).on(one.endpoint.lane),
            f"delivery:{one.pk}:{one.sends}",
        )
        for one in deliveries
    ]
    jobs = enqueue_many(
        intents, workspace=deliveries[0].workspace_id, actor=actor, request_id=request_id
    )
    for one, job in zip(deliveries, jobs, strict=True):
        one.job_id, one.sends = job.pk, one.sends + 1
        one.status, one.finished_at = DeliveryState.OPEN, None
    _write_jobs(deliveries)
    return jobs


def _write_jobs(deliveries: list[WebhookDelivery]) -> None:
    """Write the next job of each; Django's bulk update was the larger half of telling an event."""
    if connection.vendor == "postgresql":
        ids, jobs = [one.pk for one in deliveries], [one.job_id for one in deliveries]
        statements.send(_WRITE_JOBS, {"deliveries": ids, "jobs": jobs})
        return
    changed = ("job_id", "sends", "status", "finished_at")
    WebhookDelivery.objects.bulk_update(deliveries, changed, batch_size=500)
