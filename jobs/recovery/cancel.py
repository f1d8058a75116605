"""How a job is cancelled: a queued one at once, a running one at its next boundary."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from jobs import ending, moves
from jobs.models import Job
from jobs.recovery.deed import Deed
from jobs.recovery.preflight import visible_job
from jobs.states import State, Verb
from workspaces.actors import Actor

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def cancel(
    job_id: uuid.UUID | str,
    *,
    actor: Actor | User,
    reason: str,
    operation_id: uuid.UUID | None = None,
    request_id: str = "",
) -> Job:
    """Cancel a queued job now, or ask a running one to stop at its next step boundary.

    A job with an open intent ends ``dead(uncertain)`` instead of cancelled. *Hole:* a call that
    is under way is not interrupted. Raises, having changed nothing: JobNotFound, NotAllowed,
    NotCancellable, Refused, ReasonRequired, Busy.
    """
    deed = Deed.of(
        job_id, Verb.CANCEL, actor, reason, operation_id=operation_id, request_id=request_id
    )
    return deed.done(_cancelled)


def _cancelled(deed: Deed) -> Job:
    job = deed.locked()
    deed.authorised(job)
    if deed.earlier(job):
        return job
    deed.planned(job)
    deed.ask_owner(job)
    if job.state == State.RUNNING:
        moves.ask_cancel(job.pk)
    elif (ended := moves.cancel_queued(job.pk)) is not None:
        ending.follow(job.pk, ended)
    deed.tell_owner(job)
    now = visible_job(job.pk, deed.actor)
    deed.record(job, before={"state": job.state}, after={"state": now.state})
    return now
