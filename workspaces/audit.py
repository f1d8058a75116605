"""How a deed gets into the audit trail. Called by services, in their own transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction

from workspaces.errors import FiredoorError
from workspaces.models import AuditEvent

if TYPE_CHECKING:
    from uuid import UUID

    from workspaces.actors import Actor
    from workspaces.models import Workspace

REASON_MAX = 2000
"""Characters."""


class ReasonRequired(FiredoorError):
    """A deed that needs a reason came without one, or with one that is too long."""

    code = "reason_required"
    status = 422


class OperationRepeated(FiredoorError):
    """This one-time operation id is on the record already."""

    code = "operation_repeated"
    status = 409

    def __init__(self, operation_id: UUID) -> None:
        super().__init__(
            f"Nothing was done: the operation {operation_id} has been carried out before. "
            "Open the page again to see how things stand; a new deed needs a new operation id."
        )


def record(
    *,
    actor: Actor,
    action: str,
    workspace: Workspace | int | None,
    object_type: str,
    object_id: object,
    reason: str = "",
    request_id: str = "",
    operation_id: UUID | None = None,
    before: Any = None,
    after: Any = None,
    result: str = "done",
) -> AuditEvent:
    """Write one audit event; it stands or falls with the caller's transaction.

    `before` and `after` are JSON and must be free of secrets. Raises OperationRepeated when
    `operation_id` is taken: the caller's transaction stays usable, and should be given up.
    """
    workspace_id = workspace if workspace is None or isinstance(workspace, int) else workspace.pk
    event = AuditEvent(
        workspace_id=workspace_id,
        actor=actor.id,
        actor_label=actor.label[:200],
        action=action,
        object_type=object_type,
        object_id=str(object_id),
        reason=reason.replace("\x00", ""),
        request_id=request_id,
        operation_id=operation_id,
        before=before,
        after=after,
        result=result,
    )
    _insert(event)
    return event


def earlier(operation_id: UUID | None) -> AuditEvent | None:
    """Find what an operation id has done before. Ask under the lock that the deed takes."""
    if operation_id is None:
        return None
    return AuditEvent.objects.filter(operation_id=operation_id).first()


def reason_given(reason: str) -> str:
    """Return `reason` without surrounding space. Raises ReasonRequired if empty or too long."""
    reason = reason.replace("\x00", "").strip()
    if not reason:
        raise ReasonRequired("Nothing was done: say why, in words the next person understands.")
    if len(reason) > REASON_MAX:
        raise ReasonRequired(
            f"Nothing was done: the reason has {len(reason)} characters, {REASON_MAX} are kept. "
            "Shorten it, or link to the longer text."
        )
    return reason


def _insert(event: AuditEvent) -> None:
    if event.operation_id is None:
        event.save()
        return
    try:
        with transaction.atomic():
            event.save()
    except IntegrityError:
        if earlier(event.operation_id) is None:
            raise
        raise OperationRepeated(event.operation_id) from None
