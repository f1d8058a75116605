"""What follows when a delivery's job ends: the delivery's status, the endpoint's health, its gate.

In the transaction that ends the job. Lock order: the job, the endpoint, its gate, events (alerts).
Only automatic requests speak against an endpoint; any success speaks for it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import F
from django.db.models.functions import Coalesce, Now

from jobs import gates
from jobs.events import emit
from jobs.models import Job
from jobs.states import Cause, State, Verb
from webhooks.egress import UrlRefused, target_of
from webhooks.health import FIRST_PROBE, Record, after_final_failure, is_long
from webhooks.lanes import keep_lane_of
from webhooks.models import DeliveryAttempt, Endpoint, WebhookDelivery
from webhooks.states import DeliveryState, EndpointState, Reason, Trigger
from workspaces import audit
from workspaces.actors import SYSTEM

_NOBODY_ASKED = (Cause.DEADLINE, Cause.UNSTARTABLE)
"""Deaths that say nothing about the endpoint: no request was made for them."""


def follow(job: Job, verb: str, successor: Job | None) -> None:
    """Stamp the delivery that the job was the newest of. Safe to repeat."""
    mine = WebhookDelivery.objects.filter(job_id=job.pk)
    if successor is not None and verb in (Verb.RESUME, Verb.RESTART):
        mine.update(
            job_id=successor.pk,
            sends=F("sends") + 1,
            status=DeliveryState.OPEN,
            finished_at=None,
        )
        keep_lane_of(successor, job.params["endpoint_id"])
        return
    if verb not in (State.SUCCEEDED, State.DEAD, State.CANCELLED):
        return
    status = _status_of(job)
    if not mine.filter(status=DeliveryState.OPEN).update(status=status, finished_at=Now()):
        return
    if status == DeliveryState.SUCCEEDED:
        _heal(job.params["endpoint_id"])
    elif status == DeliveryState.DEAD and _speaks_against(job):
        _fail(job)


def _status_of(job: Job) -> DeliveryState:
    if job.state == State.DEAD:
        return DeliveryState.DEAD
    sent = isinstance(job.result, dict) and job.result.get("code") == "ok"
    return DeliveryState.SUCCEEDED if sent else DeliveryState.CANCELLED


def _speaks_against(job: Job) -> bool:
    automatic = job.params.get("trigger", Trigger.AUTOMATIC) == Trigger.AUTOMATIC
    return automatic and job.cause not in _NOBODY_ASKED


def _heal(endpoint_id: str) -> None:
    """A 2xx: all that spoke against the endpoint is forgotten, and what waits is let go."""
    ill = Endpoint.objects.filter(pk=endpoint_id).exclude(failures=0, state=EndpointState.ACTIVE)
    if not ill.exists():
        return
    endpoint = Endpoint.objects.select_for_update(no_key=True).get(pk=endpoint_id)
    if endpoint.state == EndpointState.DISABLED:
        return
    was = endpoint.state
    _change(endpoint, EndpointState.ACTIVE, failures=0, first_failed_at=None, last_failed_at=None)
    if was == EndpointState.FAILING:
        gates.open_again(endpoint.workspace_id, endpoint.gate)
        emit("webhook.endpoint_active", endpoint.workspace_id, endpoint.pk, told(endpoint))


def _fail(job: Job) -> None:
    """A final failure: the endpoint fails from now on, or is given up."""
    endpoint = Endpoint.objects.select_for_update(no_key=True).get(pk=job.params["endpoint_id"])
    if endpoint.state == EndpointState.DISABLED:
        return
    last = DeliveryAttempt.objects.filter(job_id=job.pk, number=job.attempt).first()
    _count(endpoint)
    if last is not None and last.code == "blocked_address":
        _record_blocked(endpoint, job)
    state, reason = _judged(endpoint, last)
    if state == EndpointState.DISABLED:
        disable(endpoint, reason or Reason.SUSTAINED, job=job, last=last)
        return
    _change(endpoint, EndpointState.FAILING)
    gates.close(
        endpoint.workspace_id,
        endpoint.gate,
        reason=f"The endpoint fails: {last.code if last else 'unknown'}",
        probe_every=FIRST_PROBE,
    )
    emit("webhook.endpoint_failing", endpoint.workspace_id, endpoint.pk, told(endpoint, job, last))


def _record_blocked(endpoint: Endpoint, job: Job) -> None:
    """Somebody's name leads into a network that nobody may be sent to: that is on record."""
    audit.record(
        actor=SYSTEM,
        action="webhook.send",
        workspace=endpoint.workspace_id,
        object_type="webhook_endpoint",
        object_id=endpoint.pk,
        request_id=job.request_id,
        after={"host": _host(endpoint.url), "delivery_id": job.params["delivery_id"]},
        result="blocked_address",
    )


def _count(endpoint: Endpoint) -> None:
    Endpoint.objects.filter(pk=endpoint.pk).update(
        failures=F("failures") + 1,
        first_failed_at=Coalesce(F("first_failed_at"), Now()),
        last_failed_at=Now(),
    )
    endpoint.refresh_from_db()


def _judged(
    endpoint: Endpoint, last: DeliveryAttempt | None
) -> tuple[EndpointState, Reason | None]:
    if endpoint.first_failed_at is None or endpoint.last_failed_at is None:
        return EndpointState.FAILING, None  # just counted: both are set
    now = endpoint.last_failed_at
    record = Record(endpoint.failures, endpoint.first_failed_at, heard_at=now)
    if is_long(record, now):  # only then all that it has taken is looked through for the last
        record = replace(record, heard_at=_heard_at(endpoint))
    return after_final_failure(record, now, _at_once(last))


def _heard_at(endpoint: Endpoint) -> datetime:
    taken = WebhookDelivery.objects.filter(endpoint=endpoint, status=DeliveryState.SUCCEEDED)
    newest = taken.order_by("-finished_at").values_list("finished_at", flat=True).first()
    return newest or endpoint.created_at


def _at_once(last: DeliveryAttempt | None) -> Reason | None:
    """Why it is given up at its first failure: as its receiver asked, or for where it leads.

    A name that leads to where nobody may be sent is not probed: each probe would be one more try
    for whoever turns it from one address to another.
    """
    if last is None:
        return None
    if last.code in (Reason.GONE, Reason.BLOCKED):
        return Reason(last.code)
    said = last.headers.get("webhook-delivery", "").strip().lower()
    return Reason.RECEIVER if last.code == "aborted" and said == "disable" else None


def disable(
    endpoint: Endpoint,
    reason: Reason,
    *,
    job: Job | None = None,
    last: DeliveryAttempt | None = None,
) -> None:
    """Give an endpoint up; it is locked. What waits for it ends, unsent, as ``cancelled``."""
    _change(endpoint, EndpointState.DISABLED, reason=reason)
    gates.open_again(endpoint.workspace_id, endpoint.gate)
    data = told(endpoint, job, last)
    emit("webhook.endpoint_disabled", endpoint.workspace_id, endpoint.pk, data)


def _change(endpoint: Endpoint, state: EndpointState, reason: str = "", **more: Any) -> None:
    since = {} if endpoint.state == state else {"state_since": Now()}
    changes = {"state": state.value, "reason": str(reason), **since, **more}
    Endpoint.objects.filter(pk=endpoint.pk).update(**changes)
    endpoint.refresh_from_db()


def told(
    endpoint: Endpoint, job: Job | None = None, last: DeliveryAttempt | None = None
) -> dict[str, Any]:
    """What events tell of an endpoint: its host, never the rest of its address."""
    return {
        "endpoint_id": str(endpoint.pk),
        "host": _host(endpoint.url),
        "description": endpoint.description,
        "state": endpoint.state,
        "reason": endpoint.reason,
        "failures": endpoint.failures,
        "code": last.code if last else "unknown" if job else "",
        "status_code": last.status_code if last else None,
        "delivery_id": job.params["delivery_id"] if job else "",
        "job_id": str(job.pk) if job else "",
        "request_id": job.request_id if job else "",
    }


def _host(url: str) -> str:
    try:
        return target_of(url, allow_http=True).host
    except UrlRefused:
        return ""
