"""How a dead or cancelled job is retried: one linked successor, finished steps carried over.

*Resume* carries finished steps and open intents, under the same keys towards the outside.
*Restart* carries nothing and is a new intent: its keys differ, and it says so.
At most one successor exists per job: decided under the row lock, enforced by a unique constraint.
*Hole:* what a kind does outside its steps runs again.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from jobs import moves, registry
from jobs.ending import told_of
from jobs.errors import AlreadyRetried
from jobs.events import emit
from jobs.fence import Wake
from jobs.models import Job
from jobs.models.ids import uuid7
from jobs.publish import after_commit
from jobs.recovery.deed import Deed
from jobs.recovery.plan import Carry, Plan
from jobs.states import Verb, Word
from workspaces.actors import Actor
from workspaces.errors import WorkspaceClosed

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def retry(
    job_id: uuid.UUID | str,
    *,
    mode: str,
    actor: Actor | User,
    reason: str,
    digest: str | None = None,
    operation_id: uuid.UUID | None = None,
    request_id: str = "",
) -> Job:
    """The successor of a job, queued; ``created`` says whether this call made it.

    ``mode`` is ``resume`` or ``restart``. ``digest`` is that of the plan the actor agreed to:
    with another plan now, PlanChanged. Whoever comes second gets the first one's successor when
    the mode is the same. Params and key stay as they are. All of it, hooks and audit included,
    is one transaction, which may be the caller's.

    Raises, having changed nothing: JobNotFound, NotAllowed, NotRetryable, AlreadyRetried,
    ReconcileRequired, VersionChanged, PlanChanged, UnknownKind, WorkspaceClosed, Refused (by the
    kind's hook), ReasonRequired, Busy.
    """
    deed = Deed.of(
        job_id,
        Verb(mode),
        actor,
        reason,
        digest=digest,
        operation_id=operation_id,
        request_id=request_id,
    )
    if deed.verb not in (Verb.RESUME, Verb.RESTART):
        raise ValueError(f"a retry is a resume or a restart, not {mode!r}")
    return deed.done(_retried)


def _retried(deed: Deed) -> Job:
    job = deed.locked()
    deed.authorised(job)
    successor = Job.objects.filter(retry_of_id=job.pk).first()
    if successor is not None:
        return _first_ones(successor, deed)
    plan = deed.planned(job)
    deed.ask_owner(job)
    successor = _inserted(job, deed)
    _carry(job, successor, plan)
    deed.tell_owner(job, successor)
    kept = [step.name for step in plan.steps if step.word is Word.KEPT]
    after = {"successor": str(successor.pk), "mode": deed.verb.value, "kept": kept}
    deed.record(job, before={"state": job.state, "cause": job.cause}, after=after)
    emit("job.retried", job.workspace_id, job.pk, {**told_of(job), **after})
    after_commit([Wake(successor.pk, successor.kind, successor.queue)])
    successor.created = True
    return successor


def _first_ones(successor: Job, deed: Deed) -> Job:
    if successor.mode == deed.verb.value:
        return successor
    raise AlreadyRetried(
        f"Nothing was done: {successor.actor} has chosen {successor.mode} for this job already, at "
        f"{successor.created_at:%Y-%m-%d %H:%M:%S} UTC. Its successor is job {successor.pk}."
    ).telling(
        successor={
            "id": str(successor.pk),
            "mode": successor.mode,
            "actor": successor.actor,
            "created_at": successor.created_at.isoformat(),
        }
    )


def _inserted(job: Job, deed: Deed) -> Job:
    spec = registry.named(job.kind)
    new = uuid7()
    params = {
        "id": job.pk,
        "new": new,
        "version": spec.version,
        "epoch": 1 if deed.verb is Verb.RESTART else 0,
        "mode": deed.verb.value,
        "shared": spec.is_shared,
        "actor": deed.actor.id,
        "request_id": deed.request_id[:128] or job.request_id,
        "traceparent": job.traceparent,
    }
    deadline = spec.deadline.total_seconds() if spec.deadline else None
    if not moves.insert_successor(params, deadline=deadline):
        raise WorkspaceClosed(job.workspace.slug)  # it closed at this very moment
    return Job.objects.get(pk=new)


def _carry(job: Job, successor: Job, plan: Plan) -> None:
    for step in plan.steps:
        if step.carry is not Carry.NOTHING:
            column = None if step.carry is Carry.INTENT else step.carry.value
            moves.carry_step(job.pk, successor.pk, step.name, column=column)
