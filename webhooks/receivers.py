"""How an event becomes deliveries, in the transaction that tells of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.events import receives
from jobs.models import Event
from webhooks import bodies
from webhooks.catalogue import CATALOGUE, is_subscribed
from webhooks.kinds import deliver
from webhooks.making import make_deliveries
from webhooks.models import Endpoint, Message
from webhooks.wanted import wants_successes
from workspaces.models import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable

OWN = deliver.name.partition(".")[0] + "."
"""Kinds of this app: what becomes of a delivery is never told by another one."""
ALERTS_OF_ENDPOINT = ("webhook.failing/", "webhook.full/")
"""How the alerts about an endpoint name their cause."""


@receives(*CATALOGUE, wants=wants_successes)
def on_event(event: Event) -> None:
    """Make one delivery for each endpoint that wants it; safe to repeat."""
    if str(event.data.get("kind", "")).startswith(OWN):
        return
    endpoints = [one for one in _subscribed(event) if not _is_about(event, one)]
    closed = Workspace.objects.filter(pk=event.workspace_id, closed_at__isnull=False)
    if not endpoints or closed.exists():
        return
    make_deliveries(_message(event), endpoints)


def _subscribed(event: Event) -> Iterable[Endpoint]:
    found = Endpoint.objects.filter(workspace_id=event.workspace_id).order_by("pk")
    return [one for one in found if is_subscribed(one.events, event.type)]


def _is_about(event: Event, endpoint: Endpoint) -> bool:
    """Whether it is an alert about this very endpoint, which could not take it."""
    mine = [f"{cause}{endpoint.pk}" for cause in ALERTS_OF_ENDPOINT]
    return event.data.get("cause_key") in mine


def _message(event: Event) -> Message:
    event.refresh_from_db(fields=["created_at"])
    message_id = bodies.new_id()
    data: dict[str, Any] = {**event.data, "subject": event.subject, "sequence": event.pk}
    message, _ = Message.objects.get_or_create(
        event_id=event.pk,
        defaults={
            "id": message_id,
            "workspace_id": event.workspace_id,
            "type": event.type,
            "body": bodies.written(message_id, event.type, event.created_at, data),
        },
    )
    return message
