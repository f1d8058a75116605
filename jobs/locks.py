"""A name that one job holds at a time: ``run.lock("stack:prod")``.

Held while its job runs, across retries and deferrals only while an intent is open, and beyond the
job's end only if it ended uncertain or took the lock with ``keep=True``: then until the open step
is reconciled, a retry of the same chain takes the lock over, or somebody forces it open.
A job that finds it held is deferred and uses no budget.
*Hole:* a lock keeps out other jobs, not other systems.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from jobs.curtain import without_secrets
from jobs.errors import LockHeld
from jobs.fence import Fence
from jobs.models import Job, Lock
from jobs.models import Step as StepRow
from jobs.models.step import OPEN
from jobs.states import State
from workspaces import audit
from workspaces.actors import Actor, as_actor
from workspaces.models import Workspace
from workspaces.permissions import require

if TYPE_CHECKING:
    from django.contrib.auth.models import User

NAME_LIMIT = 200


def take(fence: Fence, workspace_id: int, root_id: uuid.UUID, name: str, *, keep: bool) -> bool:
    """Take a lock for the job that holds the fence; False while another chain holds it.

    Call it in a transaction that has locked the job's row by the fence.
    """
    wanted = Lock(workspace_id=workspace_id, name=name, job_id=fence.job_id, since=Now(), keep=keep)
    Lock.objects.bulk_create([wanted], ignore_conflicts=True)
    held = Lock.objects.select_for_update().filter(workspace_id=workspace_id, name=name).first()
    if held is None:  # released at this very moment: the next try finds it free
        return False
    if held.job_id == fence.job_id:
        Lock.objects.filter(pk=held.pk).update(keep=keep)
        return True
    holder = Job.objects.only("root_id", "state", "cause").get(pk=held.job_id)
    if holder.root_id != root_id and not _abandoned(holder, held):
        return False
    Lock.objects.filter(pk=held.pk).update(job_id=fence.job_id, since=Now(), keep=keep)
    return True


def _abandoned(holder: Job, held: Lock) -> bool:
    """Whether a lock outlived its reason: its job has ended, or waits with nothing open."""
    if held.keep or holder.state == State.RUNNING:
        return False
    return not has_open_step(holder.pk)


def has_open_step(job_id: uuid.UUID) -> bool:
    """Whether a step was started and nobody knows, or has recorded, what became of it."""
    return StepRow.objects.filter(OPEN, job_id=job_id).exists()


def release(job_id: uuid.UUID) -> None:
    """Give up what a job need not hold any longer; called wherever an attempt of it ends."""
    open_step = StepRow.objects.filter(OPEN, job_id=OuterRef("job_id"))
    Lock.objects.filter(job_id=job_id, keep=False).exclude(Exists(open_step)).delete()


def force_open(
    workspace: Workspace, name: str, *, actor: Actor | User, reason: str, request_id: str = ""
) -> None:
    """Take a lock away from whoever holds it, audited. Needs the right ``locks.force``.

    Raises, having changed nothing: NotAllowed, LockHeld (its job is running), ReasonRequired.
    """
    somebody = as_actor(actor)
    holders = Lock.objects.filter(workspace=workspace, name=name).values("job_id")
    reason = without_secrets(reason, list(Job.objects.filter(pk__in=holders)))
    attempt = audit.Attempt(somebody, "lock.force", workspace.pk, "lock", name, reason, request_id)
    with audit.attempted(attempt):
        require(somebody, "locks.force", workspace)
        why = audit.reason_given(reason)
        with transaction.atomic():
            _take_away(workspace, name, somebody, why, request_id)


def _take_away(workspace: Workspace, name: str, actor: Actor, reason: str, request_id: str) -> None:
    held = Lock.objects.select_for_update().filter(workspace=workspace, name=name).first()
    if held is None:
        return
    if Job.objects.filter(pk=held.job_id, state=State.RUNNING).exists():
        raise LockHeld(
            f"Nothing was done: the lock {name!r} is held by job {held.job_id}, which is running. "
            "Cancel the job first."
        )
    before = {"job": str(held.job_id), "since": held.since.isoformat()}
    held.delete()
    audit.record(
        actor=actor,
        action="lock.force",
        workspace=workspace,
        object_type="lock",
        object_id=name,
        reason=reason,
        request_id=request_id,
        before=before,
    )
