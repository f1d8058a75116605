"""How an operation opens an alert, and when that ends.

Guarantee: one open alert per operation, from the moment it pauses by itself or finishes with
failures until somebody resolves or stops it, or it finishes with none. Like everything here it
goes by the rows: an event is only the occasion to look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models.functions import Now

from alerts.models import Alert, AlertState, Severity
from alerts.resolve import end, told
from jobs.events import emit
from jobs.models import Operation
from jobs.recovery.course import counts
from jobs.states import OperationState
from workspaces.redaction import scrub

if TYPE_CHECKING:
    from jobs.models import Event

RULE = "operation_failed"


def look_at(event: Event) -> None:
    """Open, refresh or end the alert of the operation that the event is about."""
    operation = Operation.objects.select_for_update().filter(pk=UUID(event.subject)).first()
    if operation is None or operation.state == OperationState.RUNNING:
        return
    alert = _alert_of(operation, counts(operation.pk)["failed"])
    this = Alert.objects.filter(
        workspace=operation.workspace_id, cause_key=alert.cause_key, state=AlertState.OPEN
    )
    known = this.select_for_update().first()
    ending = _ending(operation, alert.count)
    if ending and known is not None:
        end(known, ending)
    elif not ending and known is None:
        alert.save()
        emit("alert.opened", operation.workspace_id, alert.pk, told(alert))
    elif not ending:
        this.update(title=alert.title, count=alert.count, trace=alert.trace, last_at=Now())


def _ending(operation: Operation, failed: int) -> str:
    """Why nobody need look at it any more; empty while somebody must."""
    if operation.resolved_at is not None:
        return "An operator looked after what had failed."
    if operation.state == OperationState.STOPPED:
        return "An operator stopped the operation."
    if operation.state == OperationState.FINISHED and not failed:
        return "The operation finished without failures."
    return ""


def _alert_of(operation: Operation, failed: int) -> Alert:
    """The alert as it is to be now, not stored yet."""
    what = f"Bulk {operation.verb} of {operation.eligible} items"
    ended = operation.state == OperationState.FINISHED
    return Alert(
        workspace_id=operation.workspace_id,
        rule=RULE,
        cause_key=f"{RULE}/{operation.pk}",
        severity=Severity.ERROR,
        title=f"{what} finished, {failed} failed" if ended else f"{what} paused by itself",
        summary=(
            "See its items: manage.py job operation show "
            f"{operation.pk} --items. Mend the cause, then let a paused one go on or stop it, and "
            "resolve a finished one, saying what became of its failures."
        ),
        trace={
            "operation_id": str(operation.pk),
            "verb": operation.verb,
            "note": scrub(operation.note),
            "actor": operation.actor,
            "counts": counts(operation.pk),
            "job_id": str(operation.job_id),
        },
        count=failed,
    )
