"""How a dead letter is closed without running it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from jobs import moves
from jobs.ending import told_of
from jobs.events import emit
from jobs.models import Job
from jobs.recovery.deed import Deed
from jobs.recovery.preflight import visible_job
from jobs.states import Verb
from workspaces.actors import Actor

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def resolve(
    job_id: uuid.UUID | str,
    *,
    actor: Actor | User,
    reason: str,
    operation_id: uuid.UUID | None = None,
    request_id: str = "",
) -> Job:
    """Close a dead letter; ``reason`` is its resolution, written once and kept.

    Nothing runs, nothing is hidden; its alert closes. Raises, having changed nothing:
    JobNotFound, NotAllowed, NotResolvable, Refused, ReasonRequired, Busy.
    """
    deed = Deed.of(
        job_id, Verb.RESOLVE, actor, reason, operation_id=operation_id, request_id=request_id
    )
    return deed.done(_resolved)


def _resolved(deed: Deed) -> Job:
    job = deed.locked()
    deed.authorised(job)
    if deed.earlier(job):
        return job
    deed.planned(job)
    deed.ask_owner(job)
    moves.resolve(job.pk, deed.reason)
    deed.tell_owner(job)
    deed.record(
        job, before={"state": job.state, "cause": job.cause}, after={"resolution": deed.reason}
    )
    emit("job.resolved", job.workspace_id, job.pk, {**told_of(job), "resolution": deed.reason})
    return visible_job(job.pk, deed.actor)
