"""The engine of webhooks: one job for each delivery, three requests at most.

*Hole:* a request whose answer was lost may have been taken: the receiver gets the same
``webhook-id`` again and goes by that.
"""

from __future__ import annotations

import random
import time
import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from jobs import gates
from jobs.backoff import SPREAD
from jobs.kinds import Job, Refused, Run, Terminal, Transient, job_kind
from jobs.states import Verb
from webhooks import endings, evidence
from webhooks.egress import Reply, UrlRefused, send, target_of
from webhooks.lanes import keep_lane
from webhooks.models import GATE, WebhookDelivery
from webhooks.outcome import Outcome, outcome_of, refused_by_us, wait_before_next
from webhooks.parcels import Parcel, loaded
from webhooks.requests import headers_of
from webhooks.sealing import Unsealable
from webhooks.signing import SecretInvalid
from webhooks.states import FAST, DeliveryState, EndpointState, Trigger
from webhooks.success import along

MOST_REQUESTS = 3
AT_ONCE = 4


class NotDelivered(Transient):
    """The receiver did not take it, and may do so later."""


class NotTaken(Terminal):
    """The receiver will not take it, or it may not be sent there."""


def _gate(*, endpoint_id: str, delivery_id: str, trigger: str = Trigger.AUTOMATIC) -> str:
    """What people ask for does not wait until the endpoint is well: it may be what shows that."""
    return f"{GATE if trigger == Trigger.AUTOMATIC else 'by hand:'}{endpoint_id}"


@job_kind(
    "webhooks.deliver",
    queue=FAST,
    permission="webhooks.operate",
    max_retries=MOST_REQUESTS - 1,
    retry_backoff=30,
    retry_backoff_max=300,
    soft_time_limit=40,
    time_limit=45,
    loss_is_failure=True,
    deadline=timedelta(days=14),
    throttle=_gate,
    per_gate=AT_ONCE,
    together=4,
    alert=None,
    runbook="docs/guides/webhooks.md",
)
def deliver(
    run: Run, *, endpoint_id: str, delivery_id: str, trigger: str = "automatic"
) -> dict[str, Any]:
    """Send a message once, and say what came of it. What is not open any more is not sent."""
    parcel = loaded(uuid.UUID(delivery_id))
    if parcel.job_id not in (None, run.job_id) or parcel.status != DeliveryState.OPEN:
        return {"code": "superseded"}
    if parcel.state == EndpointState.DISABLED:
        return {"code": "not_sent"}
    reply, outcome = _tried(run, parcel)
    row = evidence.of(run, parcel, reply, outcome, Trigger(trigger))
    if outcome.ok:
        run.along = along(row)
    else:
        evidence.keep(row)
    keep_lane(parcel, outcome.code, reply.seconds, by_hand=trigger == Trigger.MANUAL)
    if outcome.ok:
        return {"code": outcome.code, "status": reply.status}
    raise _failure(run, parcel, outcome, Trigger(trigger))


def _tried(run: Run, parcel: Parcel) -> tuple[Reply, Outcome]:
    nothing = Reply(code="config", sent=False, seconds=0.0)
    try:
        target = target_of(parcel.url, allow_http=settings.WEBHOOK_ALLOW_HTTP)
        headers = headers_of(parcel, int(time.time()), run.attempt, run.traceparent)
    except (UrlRefused, Unsealable, SecretInvalid, ValueError):
        return nothing, refused_by_us("config")
    reply = send(target, headers, parcel.body, allow=settings.WEBHOOK_ALLOW_NETWORKS)
    return reply, outcome_of(reply, timezone.now())


def _failure(
    run: Run, parcel: Parcel, outcome: Outcome, trigger: Trigger
) -> NotDelivered | NotTaken:
    """What the attempt ends with. Neither address nor body is in its words."""
    words = f"{outcome.sentence} [{outcome.code}]"
    if trigger is Trigger.MANUAL or not outcome.again:
        return NotTaken(words)
    spread = random.uniform(0.0, SPREAD)  # noqa: S311
    wait = wait_before_next(run.claim.failures, spread, outcome.retry_after, parcel.delays)
    if outcome.throttled:
        gates.close(parcel.workspace_id, parcel.gate, seconds=wait, reason=words)
    return NotDelivered(words, delay=wait)


@deliver.before
def only_the_newest(job: Job, verb: str) -> None:
    """Retry only the newest job of a delivery, and only where it would be sent."""
    if verb not in (Verb.RESUME, Verb.RESTART):
        return
    delivery = WebhookDelivery.objects.filter(pk=job.params["delivery_id"]).first()
    if delivery is None or delivery.job_id not in (None, job.pk):
        raise Refused(
            "not_its_job",
            "Nothing was retried: the delivery has been sent again by another job since.",
        )
    if delivery.endpoint.state == EndpointState.DISABLED:
        raise Refused(
            "webhook_endpoint_disabled",
            "Nothing was retried: the endpoint is disabled. Enable it first.",
        )


@deliver.after
def follow(job: Job, verb: str, successor: Job | None) -> None:
    """Bring the delivery, and with it its endpoint, where its job is."""
    endings.follow(job, verb, successor)
