"""How a bulk deed is started, paused, let go on, stopped and resolved.

Whoever changes a started operation locks the engine's row first, which the engine holds while it
does an item: so once ``pause`` or ``stop`` has returned, no item is under way and none begins.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django.db.models.functions import Now

from jobs.enqueue import enqueue
from jobs.errors import NothingEligible, OperationConflict, OperationNotFound
from jobs.models import Job, Operation, OperationItem
from jobs.recovery import course
from jobs.recovery.bulk import right_for
from jobs.recovery.deed import done
from jobs.recovery.item_verbs import verb_named
from jobs.recovery.job_verbs import ENGINE
from jobs.recovery.resolve import resolve as resolve_job
from jobs.recovery.retry import retry
from jobs.states import OperationState, State, Verb
from workspaces import audit
from workspaces.actors import Actor, as_actor
from workspaces.permissions import allowed, require
from workspaces.redaction import scrub

if TYPE_CHECKING:
    from django.contrib.auth.models import User


_Work = Callable[[Operation, "_Deed"], None]


@dataclass(frozen=True)
class _Deed:
    """What every change of an operation shares: authorised, locked, once, audited."""

    name: str
    actor: Actor
    reason: str
    operation_id: uuid.UUID | None
    request_id: str

    @classmethod
    def of(
        cls,
        name: str,
        actor: Actor | User,
        reason: str,
        operation_id: uuid.UUID | None,
        request_id: str,
    ) -> _Deed:
        """Check the reason; raises ReasonRequired."""
        return cls(name, as_actor(actor), audit.reason_given(reason), operation_id, request_id)

    def done(self, pk: uuid.UUID | str, work: _Work, *, asks: bool = False) -> Operation:
        """Do it in one transaction. ``asks``: for more than a brake, its size asks for a right."""
        seen = visible_operation(pk, self.actor)
        right = right_for(seen) if asks else "operations.run"
        deed = replace(self, reason=audit.kept(without_secrets(self.reason, seen)))
        attempt = audit.Attempt(
            self.actor,
            self.action,
            seen.workspace_id,
            "operation",
            seen.pk,
            deed.reason,
            self.request_id,
        )
        with audit.attempted(attempt):
            return done(lambda: deed._done(seen, work, right))

    @property
    def action(self) -> str:
        """What the audit trail calls it."""
        return f"operation.{self.name}"

    def _done(self, seen: Operation, work: _Work, right: str) -> Operation:
        require(self.actor, right, seen.workspace_id)
        operation = _locked(seen)
        if self._earlier(operation):
            return operation
        before = {"state": operation.state}
        work(operation, self)
        operation.refresh_from_db()
        audit.record(
            actor=self.actor,
            action=self.action,
            workspace=operation.workspace_id,
            object_type="operation",
            object_id=str(operation.pk),
            reason=self.reason,
            request_id=self.request_id,
            operation_id=self.operation_id,
            before=before,
            after={"state": operation.state, "verb": operation.verb, "size": operation.eligible},
        )
        return operation

    def _earlier(self, operation: Operation) -> bool:
        """Whether this very deed was done before; OperationRepeated where its id did another."""
        event = audit.earlier(self.operation_id)
        if event is None or self.operation_id is None:
            return False
        if (event.object_id, event.action) != (str(operation.pk), self.action):
            raise audit.OperationRepeated(self.operation_id)
        return True


def start(
    pk: uuid.UUID | str,
    *,
    actor: Actor | User,
    reason: str,
    operation_id: uuid.UUID | None = None,
    request_id: str = "",
) -> Operation:
    """Let a draft run, in the name of ``actor`` and for ``reason``.

    Each item is authorised again when its turn comes, by the grants that the actor holds then.
    Raises, having changed nothing: OperationNotFound, NotAllowed (more than 50 items need a
    lead), OperationConflict (no draft), NothingEligible, WorkspaceClosed, ReasonRequired, Busy.
    """
    deed = _Deed.of("start", actor, reason, operation_id, request_id)
    return deed.done(pk, _start, asks=True)


def pause(
    pk: uuid.UUID | str,
    *,
    actor: Actor | User,
    reason: str,
    operation_id: uuid.UUID | None = None,
    request_id: str = "",
) -> Operation:
    """Hold a running operation: once this has returned no item is under way and none begins.

    Raises, having changed nothing: OperationNotFound, NotAllowed, OperationConflict,
    ReasonRequired, Busy.
    """
    deed = _Deed.of("pause", actor, reason, operation_id, request_id)
    return deed.done(pk, _pause)


def resume_operation(
    pk: uuid.UUID | str,
    *,
    actor: Actor | User,
    reason: str,
    operation_id: uuid.UUID | None = None,
    request_id: str = "",
) -> Operation:
    """Let a paused operation go on after its last item; the stop rule counts anew.

    What paused it is thereby accepted, a canary that ended badly too. From then on its items are
    done in the name of ``actor``. An engine that died is resumed. Raises, having changed nothing:
    OperationNotFound, NotAllowed, OperationConflict, WorkspaceClosed, ReasonRequired, Busy, and
    VersionChanged where a newer engine must be rerun from its start, which repeats no item.
    """
    deed = _Deed.of("go", actor, reason, operation_id, request_id)
    return deed.done(pk, _go, asks=True)


def stop(
    pk: uuid.UUID | str,
    *,
    actor: Actor | User,
    reason: str,
    operation_id: uuid.UUID | None = None,
    request_id: str = "",
) -> Operation:
    """End an operation where it is, for good; what was done stays done.

    Once this has returned no item is under way and none begins. Raises, having changed nothing:
    OperationNotFound, NotAllowed, OperationConflict, ReasonRequired, Busy.
    """
    deed = _Deed.of("stop", actor, reason, operation_id, request_id)
    return deed.done(pk, _stop)


def resolve(
    pk: uuid.UUID | str,
    *,
    actor: Actor | User,
    reason: str,
    operation_id: uuid.UUID | None = None,
    request_id: str = "",
) -> Operation:
    """Note that the failures of an ended operation were looked after; its alert closes.

    ``reason`` is the resolution, written once and kept. Raises, having changed nothing:
    OperationNotFound, NotAllowed, OperationConflict, ReasonRequired, Busy.
    """
    deed = _Deed.of("resolve", actor, reason, operation_id, request_id)
    return deed.done(pk, _resolve)


def visible_operation(pk: uuid.UUID | str, actor: Actor | User) -> Operation:
    """The operation, if the actor may see it. OperationNotFound says the same for a foreign one."""
    try:
        found = Operation.objects.select_related("workspace").get(pk=uuid.UUID(str(pk)))
    except (ValueError, Operation.DoesNotExist):
        found = None
    if found is None or not allowed(as_actor(actor), "jobs.view", found.workspace_id):
        raise no_such_operation(pk)
    return found


def without_secrets(text: str, operation: Operation) -> str:
    """What somebody typed about an operation, without what the things in it hide."""
    items = OperationItem.objects.filter(operation_id=operation.pk)
    ids = list(items.order_by("position").values_list("object_id", flat=True))
    return verb_named(operation.verb).without_secrets(text, operation.workspace_id, ids)


def no_such_operation(pk: object) -> OperationNotFound:
    return OperationNotFound(
        f"Nothing was done: there is no operation {str(pk)[:60]!r} that you may see. Check the id."
    )


def _locked(seen: Operation) -> Operation:
    """Lock the engine's job, then the operation: the order in which the engine does."""
    while True:
        if seen.job_id is not None:
            Job.objects.select_for_update().filter(pk=seen.job_id).first()
        operation = Operation.objects.select_for_update().get(pk=seen.pk)
        if operation.job_id == seen.job_id:
            return operation
        seen = operation  # it was started, or its engine was retried, in between


def _must_be(operation: Operation, *states: OperationState) -> None:
    if operation.state not in states:
        raise OperationConflict(
            f"Nothing was done: the operation is {operation.state}, and this can only be done to "
            f"one that is {' or '.join(states)}. See it with manage.py job operation show "
            f"{operation.pk}."
        )


def _start(operation: Operation, deed: _Deed) -> None:
    _must_be(operation, OperationState.DRAFT)
    if not operation.eligible:
        raise NothingEligible(
            f"Nothing was started: none of the {operation.selected} selected may be done. "
            "Its items say why not."
        )
    job = enqueue(
        ENGINE,
        workspace=operation.workspace_id,
        key=f"operation:{operation.pk}",
        params={"operation_id": str(operation.pk)},
        actor=deed.actor,
        request_id=deed.request_id,
        reserved=True,
    )
    Operation.objects.filter(pk=operation.pk).update(
        state=OperationState.RUNNING, started_at=Now(), job_id=job.pk, reason=deed.reason
    )
    _in_the_name_of(deed.actor, operation)


def _in_the_name_of(actor: Actor, operation: Operation) -> None:
    names = {"actor": actor.id, "actor_label": actor.label[:200]}
    Operation.objects.filter(pk=operation.pk).update(**names)


def _pause(operation: Operation, deed: _Deed) -> None:
    _must_be(operation, OperationState.RUNNING)
    course.pause(operation, f"{deed.actor.label}: {deed.reason}")


def _go(operation: Operation, deed: _Deed) -> None:
    _must_be(operation, OperationState.PAUSED)
    _in_the_name_of(deed.actor, operation)
    dead = _dead_engine(operation)
    if dead is None:
        course.run(operation)
    else:
        retry(dead.pk, mode=Verb.RESUME, actor=deed.actor, reason=deed.reason)


def _stop(operation: Operation, deed: _Deed) -> None:
    _must_be(operation, OperationState.DRAFT, OperationState.RUNNING, OperationState.PAUSED)
    course.stop(operation, f"{deed.actor.label}: {deed.reason}")
    dead = _dead_engine(operation)
    if dead is not None:
        resolve_job(dead.pk, actor=deed.actor, reason=deed.reason)


def _dead_engine(operation: Operation) -> Job | None:
    if operation.job_id is None:
        return None
    return Job.objects.filter(pk=operation.job_id, state=State.DEAD, resolved_at=None).first()


def _resolve(operation: Operation, deed: _Deed) -> None:
    _must_be(operation, OperationState.FINISHED, OperationState.STOPPED)
    if operation.resolved_at is not None:
        raise OperationConflict(
            f"Nothing was done: it was resolved already, with: {scrub(operation.resolution)}"
        )
    Operation.objects.filter(pk=operation.pk).update(resolved_at=Now(), resolution=deed.reason)
    operation.refresh_from_db()
    course.tell("operation.resolved", operation)
