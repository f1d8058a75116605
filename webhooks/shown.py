"""How endpoints and deliveries are told, by API and console alike. Secrets are never in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from jobs.models import Attempt, Job
from jobs.states import AttemptOutcome, State
from webhooks.egress import without_query
from webhooks.models import DeliveryAttempt, Endpoint, WebhookDelivery
from webhooks.requests import live_secrets
from webhooks.sealing import Unsealable, unseal_headers
from webhooks.states import DeliveryState

PENDING, SENDING = "pending", "sending"
STATUSES = (
    PENDING,
    SENDING,
    *(state.value for state in DeliveryState if state is not DeliveryState.OPEN),
)
"""As people are told them: what is open is pending or sending, which its job knows."""
LOST = "unknown"
"""The code of a request that a crash cut off: nobody knows whether it went out."""


def endpoint_line(endpoint: Endpoint, *, whole_url: bool) -> dict[str, Any]:
    """An endpoint in a list; its whole URL is for who may write it."""
    return {
        "id": str(endpoint.pk),
        "url": endpoint.url if whole_url else without_query(endpoint.url),
        "description": endpoint.description,
        "events": endpoint.events,
        "state": endpoint.state,
        "reason": endpoint.reason,
        "state_since": endpoint.state_since.isoformat(),
        "failures": endpoint.failures,
        "first_failed_at": _iso(endpoint.first_failed_at),
        "last_failed_at": _iso(endpoint.last_failed_at),
        "lane": endpoint.lane,
        "delays": endpoint.delays,
        "created_at": endpoint.created_at.isoformat(),
    }


def endpoint_shown(endpoint: Endpoint, *, whole_url: bool) -> dict[str, Any]:
    """One endpoint; of its secrets and headers no values."""
    secrets = live_secrets(endpoint)
    waiting = WebhookDelivery.objects.filter(endpoint=endpoint, status=DeliveryState.OPEN)
    return {
        **endpoint_line(endpoint, whole_url=whole_url),
        "headers": _names(endpoint),
        "waiting": waiting.count(),
        "secret": None,
        "secrets": [
            {
                "hint": one.hint,
                "created_at": one.created_at.isoformat(),
                "expires_at": _iso(one.expires_at),
            }
            for one in secrets
        ],
    }


def delivery_lines(rows: Iterable[WebhookDelivery]) -> list[dict[str, Any]]:
    """Deliveries in a list; one query for how their jobs stand."""
    found = list(rows)
    open_ids = [row.job_id for row in found if row.status == DeliveryState.OPEN and row.job_id]
    jobs = dict(Job.objects.filter(pk__in=open_ids).values_list("pk", "state"))
    return [_line(row, jobs) for row in found]


def delivery_shown(row: WebhookDelivery) -> dict[str, Any]:
    """One delivery with every request that was made for it."""
    (line,) = delivery_lines([row])
    return {**line, "attempts": _attempts(row)}


def status_told(row: WebhookDelivery, job_state: str | None) -> str:
    """Its status in the words for people; of an open one its job's state tells which."""
    if row.status != DeliveryState.OPEN:
        return row.status
    return SENDING if job_state == State.RUNNING else PENDING


def _line(row: WebhookDelivery, jobs: dict[uuid.UUID, str]) -> dict[str, Any]:
    job_state = jobs.get(row.job_id) if row.job_id is not None else None
    return {
        "id": str(row.pk),
        "endpoint_id": str(row.endpoint_id),
        "message_id": row.message_id,
        "event_type": row.message.type,
        "status": status_told(row, job_state),
        "job_id": str(row.job_id) if row.job_id else None,
        "sends": row.sends,
        "created_at": row.created_at.isoformat(),
        "finished_at": _iso(row.finished_at),
    }


def _attempts(row: WebhookDelivery) -> list[dict[str, Any]]:
    """Every request, oldest first; what a crash cut off as well."""
    kept = list(DeliveryAttempt.objects.filter(delivery=row).order_by("pk"))
    known = {(one.job_id, one.number) for one in kept}
    jobs = {one.job_id for one in kept} | ({row.job_id} if row.job_id else set())
    lost = Attempt.objects.filter(
        job_id__in=jobs, outcome__in=(AttemptOutcome.LOST, AttemptOutcome.TIMED_OUT)
    )
    told = [(one.ended_at, _attempt(one)) for one in kept]
    told += [(one.ended_at, _cut_off(one)) for one in lost if (one.job_id, one.number) not in known]
    return [each for _at, each in sorted(told, key=lambda pair: pair[0])]


def _attempt(one: DeliveryAttempt) -> dict[str, Any]:
    return {
        "job_id": str(one.job_id),
        "number": one.number,
        "trigger": one.trigger,
        "url": without_query(one.url),
        "code": one.code,
        "status_code": one.status_code,
        "headers": one.headers,
        "excerpt": one.excerpt,
        "milliseconds": one.milliseconds,
        "ended_at": one.ended_at.isoformat(),
    }


def _cut_off(one: Attempt) -> dict[str, Any]:
    return {
        "job_id": str(one.job_id),
        "number": one.number,
        "trigger": "automatic",
        "url": "",
        "code": LOST,
        "status_code": None,
        "headers": {},
        "excerpt": "",
        "milliseconds": round((one.ended_at - one.started_at).total_seconds() * 1000),
        "ended_at": one.ended_at.isoformat(),
    }


def _names(endpoint: Endpoint) -> list[str]:
    try:
        return sorted(unseal_headers(endpoint.headers))
    except Unsealable:
        return []


def _iso(moment: Any) -> str | None:
    return moment.isoformat() if moment else None
