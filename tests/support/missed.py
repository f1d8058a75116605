"""Deliveries that an endpoint missed, thousands at once."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.db.models.functions import Now
from django.utils import timezone

from jobs.models import Job
from jobs.models.ids import uuid7
from webhooks import bodies
from webhooks.models import Endpoint, Message, WebhookDelivery
from workspaces.models import Workspace


def missed(workspace: Workspace, endpoint: Endpoint, count: int) -> None:
    """So many deliveries that died an hour ago, a millisecond apart, each with its dead letter."""
    began = timezone.now() - timedelta(hours=1)
    messages, deliveries, jobs = [], [], []
    for number in range(count):
        at = began + timedelta(milliseconds=number)
        message_id, delivery_id, job_id = bodies.new_id(), uuid7(), uuid7()
        body = bodies.written(message_id, "job.retried", at, {"sequence": number})
        messages.append(Message(id=message_id, workspace=workspace, type="job.retried", body=body))
        deliveries.append(
            WebhookDelivery(
                id=delivery_id,
                workspace=workspace,
                endpoint=endpoint,
                message_id=message_id,
                status="dead",
                job_id=job_id,
                sends=1,
                created_at=at,
                finished_at=at,
            )
        )
        jobs.append(_letter(workspace, endpoint, delivery_id, job_id))
    Message.objects.bulk_create(messages, batch_size=1000)
    WebhookDelivery.objects.bulk_create(deliveries, batch_size=1000)
    Job.objects.bulk_create(jobs, batch_size=1000)


def _letter(
    workspace: Workspace, endpoint: Endpoint, delivery_id: uuid.UUID, job_id: uuid.UUID
) -> Job:
    return Job(
        id=job_id,
        root_id=job_id,
        workspace=workspace,
        kind="webhooks.deliver",
        key=f"delivery:{delivery_id}:0",
        params={
            "endpoint_id": str(endpoint.pk),
            "delivery_id": str(delivery_id),
            "trigger": "automatic",
        },
        params_digest="",
        queue=endpoint.lane,
        gate=endpoint.gate,
        state="dead",
        cause="exhausted",
        attempt=3,
        failures=3,
        actor="system",
        finished_at=Now(),
    )
