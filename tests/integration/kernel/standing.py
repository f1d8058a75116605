"""A job that stands as a test of one statement wants it, with the steps that it needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from jobs.fence import AttemptRecord, Fence
from jobs.models import Job, Step
from jobs.states import AttemptOutcome
from tests.drills.kinds import noop
from tests.integration.kernel.acting import waiting
from workspaces.models import Workspace

WORKER = "me/b/1/1/1"
LEASE = 60.0
RECORD = AttemptRecord(
    outcome=AttemptOutcome.FAILED,
    classification="retry",
    reason="http_502",
    step="s",
    error_class="Bad",
    message="it was bad",
    traceback="where it was bad",
    fingerprint="f00",
    cost='{"amount": 1}',
    provider_request_id="req-1",
)
STEP = {"name": "s", "effect": "once", "boundary": "provider"}

QUEUED: dict[str, Any] = {"run_at": Now(), "wake_at": Now()}
RUNNING: dict[str, Any] = {
    "state": "running",
    "attempt": 2,
    "worker": WORKER,
    "started_at": Now() - timedelta(minutes=1),
    "lease_until": Now() + timedelta(seconds=1),
    "kill_at": Now() + timedelta(minutes=14),
}
DEAD: dict[str, Any] = {"state": "dead", "cause": "terminal", "finished_at": Now()}
UNSTARTABLE: dict[str, Any] = {"wait_reason": "unstartable", "wait_since": Now()}

STARTED: dict[str, Any] = {"state": "started", "intent_at": Now(), "opens_at": Now()}


def standing(workspace: Workspace, key: str, values: dict[str, Any]) -> Job:
    """A job that stands so, with an open step ``s`` and another that nothing is about."""
    job = made(workspace, key, **values)
    for name in ("s", "t"):
        stepped(job, name)
    return job


def made(workspace: Workspace, key: str = "a", **values: Any) -> Job:
    """A job that stands so, with no step."""
    job = waiting(noop.s(), workspace, key)
    Job.objects.filter(pk=job.pk).update(**values)
    job.refresh_from_db()
    return job


def stepped(job: Job, name: str = "s", **values: Any) -> Step:
    """A ``once`` step of the job, open unless told otherwise."""
    told = {"effect": "once", "attempt": 2, **STARTED, **values}
    step = Step.objects.create(job=job, name=name, **told)
    step.refresh_from_db()
    return step


def fence(job: Job) -> Fence:
    return Fence(job.pk, attempt=2, worker=WORKER, lease=LEASE)


def values_of(job: Job) -> dict[str, Any]:
    """The job's row as it is now."""
    return {**Job.objects.filter(pk=job.pk).values().get()}
