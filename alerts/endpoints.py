"""How an endpoint of webhooks opens an alert, and when that ends.

Guarantee: one open alert per endpoint, from its first final failure until it takes something
again; later failures are counted in it. A second one from when so many messages wait for it that
further ones are skipped until half of them have gone. Events may come late, twice and out of
order: each looks at what the bus has told of the endpoint since, and an older one changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import F
from django.db.models.functions import Now

from alerts.models import Alert, AlertState, Severity
from alerts.resolve import end, told
from jobs.events import emit
from jobs.models import Event

if TYPE_CHECKING:
    from django.db.models import QuerySet

RULE = "webhook_endpoint"
CAUSE = "webhook.failing"
FULL_CAUSE = "webhook.full"
WELL = "webhook.endpoint_active"
GIVEN_UP = "webhook.endpoint_disabled"
FULL = "webhook.endpoint_full"
DRAINED = "webhook.endpoint_drained"
BY_HAND = "manual"


def look_at(event: Event) -> None:
    """Open, count in, make graver or end the alert of the endpoint that the event is about."""
    if event.type == DRAINED:
        _end(event, "Few enough wait for the endpoint again, so that none is skipped.")
    elif event.type == FULL:
        if not _later(event).filter(type=DRAINED).exists():
            _join(event)
    elif event.type == WELL:
        _end(event, "The endpoint takes messages again.")
    elif event.type == GIVEN_UP and event.data["reason"] in (BY_HAND, "workspace_closed"):
        _end(event, "Somebody disabled the endpoint.")
    elif not _later(event).filter(type=WELL).exists():
        _join(event)


def _later(event: Event) -> QuerySet[Event]:
    return Event.objects.filter(subject=event.subject, pk__gt=event.pk)


def _open_one(event: Event) -> QuerySet[Alert]:
    return Alert.objects.filter(
        workspace_id=event.workspace_id,
        cause_key=_cause_key(event),
        state=AlertState.OPEN,
    )


def _cause_key(event: Event) -> str:
    cause = FULL_CAUSE if event.type in (FULL, DRAINED) else CAUSE
    return f"{cause}/{event.subject}"


def _end(event: Event, resolution: str) -> None:
    alert = _open_one(event).select_for_update().first()
    if alert is not None and alert.trace.get("event_id", 0) < event.pk:
        end(alert, resolution)


def _join(event: Event) -> None:
    fresh = _fresh(event)
    Alert.objects.bulk_create([fresh], ignore_conflicts=True)  # or the open one stays
    alert = _open_one(event).select_for_update().get()  # gone just now: the event comes again
    if alert.trace.get("event_id", 0) >= event.pk:
        return
    opened = alert.count == 0
    Alert.objects.filter(pk=alert.pk).update(
        count=F("count") + 1,
        last_at=Now(),
        trace=_trace(event),
        severity=fresh.severity,
        title=fresh.title,
        summary=fresh.summary,
    )
    if opened:
        emit("alert.opened", event.workspace_id, alert.pk, told(alert))


def _fresh(event: Event) -> Alert:
    severity, what, summary = _WORDS[event.type]
    code = f" ({event.data['code']})" if event.data["code"] else ""
    return Alert(
        workspace_id=event.workspace_id,
        rule=RULE,
        cause_key=_cause_key(event),
        severity=severity,
        title=f"Webhook endpoint {event.data['host']} {what}{code}"[:300],
        summary=summary,
        runbook="docs/guides/webhooks.md",
    )


def _trace(event: Event) -> dict[str, Any]:
    names = ("endpoint_id", "delivery_id", "job_id", "code", "status_code", "reason", "request_id")
    return {**{name: event.data[name] for name in names}, "event_id": event.pk}


_FAILING = (
    "Its messages wait, and one at a time is tried, ever later. Any success lets the rest go, "
    "oldest first. See its deliveries for what it answered; test it once it is mended."
)
_GIVEN_UP = (
    "Nothing is sent to it any more; events are kept as skipped. Once its receiver is mended, "
    "enable it, and recover what was missed."
)
_SKIPPING = (
    "More waits for it than may wait, so new events are kept as skipped and not sent. It is "
    "sent ten messages a second at most: see whether it answers quickly, or subscribe it to fewer "
    "events. Recover what was skipped once this alert has ended."
)
_WORDS = {
    "webhook.endpoint_failing": (Severity.WARNING, "does not take its messages", _FAILING),
    GIVEN_UP: (Severity.ERROR, "was disabled", _GIVEN_UP),
    FULL: (Severity.ERROR, "is sent more than it takes: new messages are skipped", _SKIPPING),
}
