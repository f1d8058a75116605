"""The one bus: alerts, webhooks and the progress feed hear here of what happened.

``emit`` writes the event in the caller's transaction and calls its receivers at once, each in a
savepoint of its own. A receiver that raises is undone alone, and the sweeper delivers the event
again, to all of its receivers: they must be idempotent by ``event.id``.
*Hole:* a receiver's work may come one upkeep pass late, never not at all, until ``MAX_TRIES``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from jobs import guests, shutdown
from jobs.models import Event
from workspaces.models import Workspace
from workspaces.redaction import scrub

logger = logging.getLogger(__name__)

MAX_TRIES = 20

Receive = Callable[[Event], None]
Wants = Callable[[int], bool]


@dataclass(frozen=True)
class Receiver:
    types: frozenset[str]
    function: Receive
    wants: Wants | None


_receivers: list[Receiver] = []


def receives(*types: str, wants: Wants | None = None) -> Callable[[Receive], Receive]:
    """Register a receiver of events of ``types``, idempotent by ``event.id``.

    ``wants(workspace_id)`` is asked only about the plain success of a job (``job.succeeded`` of
    a job that is no retry), which is written only where somebody wants it; keep it free of
    queries, since every job asks. Every other event is always written and delivered.
    """

    def registered(function: Receive) -> Receive:
        _receivers.append(Receiver(frozenset(types), function, wants))
        return function

    return registered


def wanted(event_type: str, workspace_id: int) -> bool:
    """Whether a plain event of this type has to be written for this workspace."""
    return any(_listening(r, event_type, workspace_id) for r in _receivers)


def _listening(receiver: Receiver, event_type: str, workspace_id: int) -> bool:
    if event_type not in receiver.types:
        return False
    return receiver.wants is None or receiver.wants(workspace_id)


def emit(
    event_type: str,
    workspace: Workspace | int,
    subject: object,
    data: dict[str, Any],
    *,
    deliver: bool = True,
) -> Event:
    """Write an event in the caller's transaction and call its receivers.

    ``data`` is JSON and must be free of secrets. With ``deliver=False`` the first delivery is
    left to the sweeper. An event about a job must be emitted while its row is locked: only then
    is the id a safe cursor over the events of that job.
    """
    workspace_id = workspace if isinstance(workspace, int) else workspace.pk
    event = Event(
        workspace_id=workspace_id,
        type=event_type,
        subject=str(subject),
        data=data,
        tries=0,
        error="",
    )
    heard = any(event_type in r.types for r in _receivers)
    with transaction.atomic():
        if not heard:
            event.delivered_at = Now()
        event.save(force_insert=True)
        if heard and deliver:
            deliver_now(event)
    return event


def deliver_now(event: Event) -> bool:
    """Call every receiver of ``event`` once; True if all returned. Needs a transaction.

    Raises guests.Broken where a receiver ended that.
    """
    faults = [fault for r in _receivers if event.type in r.types if (fault := _call(r, event))]
    event.tries += 1
    event.error = "; ".join(faults)[:2000]
    changed: dict[str, Any] = {"tries": event.tries, "error": event.error}
    if not faults:
        changed["delivered_at"] = Now()
    Event.objects.filter(pk=event.pk).update(**changed)
    return not faults


def _call(receiver: Receiver, event: Event) -> str | None:
    name = f"{receiver.function.__module__}.{receiver.function.__qualname__}"
    who = f"receiver {name} of {event.type} about {event.subject}"
    if (fault := guests.broken_by(who)) is not None:
        return scrub(fault)[:500]
    try:
        with guests.guest(who):
            receiver.function(event)
    except guests.Broken:
        raise
    except BaseException as error:
        if shutdown.ends_process(error):
            raise
        logger.exception("event.receiver_failed", extra={"event_id": event.pk, "receiver": name})
        return scrub(f"{name}: {type(error).__name__}: {error}")[:500]
    return None
