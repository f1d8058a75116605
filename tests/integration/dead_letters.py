"""Jobs in the states that alerts are about, told of by the kernel's own events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models.functions import Now

from jobs import ending
from jobs.failure import fingerprint
from jobs.fence import Ended
from jobs.models import Attempt, Job
from jobs.models.ids import uuid7
from jobs.states import AttemptOutcome, Cause, State

if TYPE_CHECKING:
    from workspaces.models import Workspace

KIND = "scene.ship"


def queued_job(workspace: Workspace, key: str = "order-1", *, retry_of: Job | None = None) -> Job:
    """A queued job: the first of its chain, or the successor of `retry_of`."""
    job_id = uuid7()
    return Job.objects.create(
        id=job_id,
        workspace=workspace,
        kind=KIND,
        key=key,
        params={},
        params_digest="",
        queue="default",
        actor="system",
        request_id=f"req-{key}",
        traceparent="00-trace",
        retry_of=retry_of,
        root_id=retry_of.root_id if retry_of else job_id,
    )


def dies(
    job: Job,
    cause: Cause = Cause.EXHAUSTED,
    *,
    step: str = "register",
    error: str = "registry.Down",
    message: str = "registry answered 503",
) -> Job:
    """Let a job end dead after one attempt, and say so as the kernel does."""
    with transaction.atomic():
        _end(job, state=State.DEAD, cause=cause)
        Attempt.objects.create(
            job=job,
            number=1,
            outcome=AttemptOutcome.FAILED,
            step=step,
            error_class=error,
            message=message,
            fingerprint=fingerprint(job.kind, step, error, message),
            worker="w",
            started_at=Now(),
            kill_at=Now(),
            ended_at=Now(),
        )
        ending.follow(job.pk, Ended(State.DEAD, cause))
    job.refresh_from_db()
    return job


def ends(job: Job, state: State) -> Job:
    """Let a job succeed or be cancelled, and say so as the kernel does."""
    with transaction.atomic():
        _end(job, state=state, cause="")
        ending.follow(job.pk, Ended(state, ""))
    job.refresh_from_db()
    return job


def _end(job: Job, **values: Any) -> None:
    Job.objects.filter(pk=job.pk).update(attempt=1, finished_at=Now(), **values)
