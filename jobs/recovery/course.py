"""How an operation's state changes, and what goes with each change: its gate, its event.

Everything here expects the operation to be the caller's: locked, or driven by the engine job whose
row the caller has locked. The order is the house's own: the engine's job, the operation, gates.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import Count, QuerySet
from django.db.models.functions import Now

from jobs import gates
from jobs.events import emit
from jobs.fence import Wake
from jobs.models import Operation, OperationItem
from jobs.publish import after_commit
from jobs.recovery.job_verbs import ENGINE
from jobs.states import ItemOutcome, OperationState
from workspaces.redaction import scrub

PAUSE_SECONDS = 10 * 365 * 86400.0  # a gate has a time to open; a pause ends by a deed


def run(operation: Operation) -> None:
    """Let it go on from where it is: the stop rule counts anew, and its engine is woken."""
    _open_gate(operation)
    first = pending(operation).order_by("position").values_list("position", flat=True).first()
    _change(operation, OperationState.RUNNING, note="", watched_from=first or 1)
    _wake(operation)


def pause(operation: Operation, why: str, *, by_itself: bool = False) -> None:
    """Hold its engine back at the next item; says so to the bus where nobody asked for it."""
    gates.close(operation.workspace_id, operation.gate, seconds=PAUSE_SECONDS, reason=why)
    _change(operation, OperationState.PAUSED, note=why)
    if by_itself:
        tell("operation.paused", operation)


def stop(operation: Operation, why: str) -> None:
    """End it where it is. Its engine, if it waits, ends at its next wake."""
    _open_gate(operation)
    _change(operation, OperationState.STOPPED, note=why, finished_at=Now())
    _wake(operation)
    tell("operation.stopped", operation)


def finish(operation: Operation) -> None:
    """Every item has its outcome."""
    _open_gate(operation)
    _change(operation, OperationState.FINISHED, note="", finished_at=Now())
    tell("operation.finished", operation)


def pending(operation: Operation) -> QuerySet[OperationItem]:
    """Its items without an outcome."""
    return OperationItem.objects.filter(operation_id=operation.pk, outcome=ItemOutcome.PENDING)


def counts(operation_id: uuid.UUID) -> dict[str, int]:
    """How many items have each outcome; one query, counted anew each time."""
    rows = OperationItem.objects.filter(operation_id=operation_id).values_list("outcome")
    found = dict(rows.annotate(count=Count("pk")))
    return {outcome.value: found.get(outcome.value, 0) for outcome in ItemOutcome}


def tell(event_type: str, operation: Operation) -> None:
    """Emit an event about it, with its counts; what people wrote is scrubbed."""
    data = {
        "verb": operation.verb,
        "state": operation.state,
        "note": scrub(operation.note),
        "actor": operation.actor,
        "reason": scrub(operation.reason),
        "counts": counts(operation.pk),
        "resolution": scrub(operation.resolution),
    }
    emit(event_type, operation.workspace_id, operation.pk, data)


def _open_gate(operation: Operation) -> None:
    gates.open_again(operation.workspace_id, operation.gate)


def _wake(operation: Operation) -> None:
    if operation.job_id is not None:
        after_commit([Wake(operation.job_id, ENGINE)])


def _change(operation: Operation, state: OperationState, **more: Any) -> None:
    Operation.objects.filter(pk=operation.pk).update(state=state.value, **more)
    operation.refresh_from_db()
