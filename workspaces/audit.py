"""How a deed gets into the audit trail, done or refused. Called by services.

What was done is written in the service's own transaction (`record`). What was refused is written
once that has been rolled back (`attempted`), whichever door the service was called through.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.db import DatabaseError, IntegrityError, connection, transaction

from workspaces.errors import FiredoorError
from workspaces.models import AuditEvent
from workspaces.redaction import scrub

if TYPE_CHECKING:
    from uuid import UUID

    from workspaces.actors import Actor
    from workspaces.models import Workspace

logger = logging.getLogger(__name__)

REASON_MAX = 2000
"""Characters."""

DONE: Final = "done"
"""The result of what was done; a refusal's is its code."""

_BLANK: Final = "\u115f\u1160\u2800\u3164\uffa0"  # letters and a symbol that show nothing

REFUSALS: Final = frozenset({403, 409, 410})
"""Statuses of what is refused for want of a right, or by the state of things."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A deed that somebody sets out to do."""

    actor: Actor
    action: str
    workspace: int | None
    object_type: str
    object_id: object
    reason: str = ""
    request_id: str = ""


class ReasonRequired(FiredoorError):
    """A deed that needs a reason came without one that can be read."""

    code = "reason_required"
    status = 422


class ReasonTooLong(ReasonRequired):
    """A reason came that is longer than what is kept."""

    code = "reason_too_long"


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
    result: str = DONE,
) -> AuditEvent:
    """Write one audit event; it stands or falls with the caller's transaction.

    `before` and `after` are JSON and must be free of secrets; a reason is scrubbed here, whoever
    passes it. Raises OperationRepeated when
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
        reason=scrub(_storable(reason)),
        request_id=request_id,
        operation_id=operation_id,
        before=before,
        after=after,
        result=result,
    )
    _insert(event)
    return event


@contextmanager
def attempted(attempt: Attempt) -> Iterator[None]:
    """Around a deed and its transaction: a refusal goes on record, and then goes on.

    Recorded are refusals of rights and of state, with their code as the result; neither mistakes
    in what was sent nor things that the actor may not even know of. Inside somebody else's
    transaction, which the refusal may undo, whoever owns that calls `record_refusal`.
    *Hole:* an owner who swallows the refusal leaves no record of it.
    """
    try:
        yield
    except FiredoorError as error:
        error.attempt = attempt
        if not connection.in_atomic_block:
            record_refusal(error)
        raise


def record_refusal(error: FiredoorError, otherwise: Attempt | None = None) -> None:
    """Put a refusal on record, once; `otherwise` is what it was, if no service was reached.

    Call it when the refused transaction is rolled back. Never raises for a database that cannot
    take it: the refusal stands all the same, and the log says so.
    """
    attempt = error.attempt if isinstance(error.attempt, Attempt) else otherwise
    if attempt is None or error.on_record or error.status not in REFUSALS:
        return
    error.on_record = True
    told = {name: getattr(attempt, name) for name in Attempt.__slots__}
    try:
        with transaction.atomic():
            record(**{**told, "reason": kept(scrub(attempt.reason))}, result=error.code)
    except DatabaseError:
        logger.exception("audit.refusal_not_recorded", extra={"code": error.code})


def earlier(operation_id: UUID | None) -> AuditEvent | None:
    """Find what an operation id has done before. Ask under the lock that the deed takes."""
    if operation_id is None:
        return None
    return AuditEvent.objects.filter(operation_id=operation_id).first()


def reason_given(reason: str) -> str:
    """Return `reason` as it may be stored: scrubbed, without surrounding space.

    Raises ReasonRequired where nothing in it can be seen, ReasonTooLong.
    """
    reason = _storable(reason).strip()
    if not any(map(_is_visible, reason)):
        raise ReasonRequired("Nothing was done: say why, in words the next person understands.")
    if len(reason) > REASON_MAX:
        raise ReasonTooLong(
            f"Nothing was done: the reason has {len(reason)} characters, {REASON_MAX} are kept. "
            "Shorten it, or link to the longer text."
        )
    return kept(scrub(reason))


def kept(scrubbed: str) -> str:
    """As much of a scrubbed reason as is kept: what hides a secret may be longer than it."""
    return scrubbed[:REASON_MAX]


def _storable(text: str) -> str:
    """`text` as UTF-8 has it: no NUL, no half of a surrogate pair."""
    return text.replace("\x00", "").encode(errors="replace").decode()


def _is_visible(character: str) -> bool:
    """Whether it leaves a mark: no space, no control or zero-width character, no blank letter."""
    return unicodedata.category(character)[0] in "LNPS" and character not in _BLANK


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
