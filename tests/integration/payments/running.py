"""Running jobs to their end without waiting for the clock."""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Now

from examples.payments.kinds import charge
from jobs.drain import drain
from jobs.models import Job
from jobs.states import FINAL, State
from workspaces.models import Workspace

MOST_ATTEMPTS = 20


def enqueued(workspace: Workspace, key: str = "order-42", cents: int = 4200) -> Job:
    """A charge that no worker has touched: not due yet, so that no wake runs it."""
    intended = charge.s(order_id="o-42", cents=cents)
    return intended.enqueue(workspace=workspace, key=key, countdown=3600)


def attempted(job: Job) -> Job:
    """The job after one attempt, whatever it still had to wait for."""
    Job.objects.filter(pk=job.pk, state=State.QUEUED).update(run_at=Now())
    drain(limit=1)
    job.refresh_from_db()
    return job


def finished(job: Job) -> Job:
    """The job in its final state."""
    for _ in range(MOST_ATTEMPTS):
        if attempted(job).state in FINAL:
            return job
    raise AssertionError(f"{job} is still {job.state} after {MOST_ATTEMPTS} attempts")


def outcomes(job: Job) -> list[tuple[str, str]]:
    """Outcome and reason of each attempt, oldest first."""
    return list(job.attempts.order_by("number").values_list("outcome", "reason"))


def steps(job: Job) -> dict[str, str]:
    """The state of each step."""
    return dict(job.steps.values_list("name", "state"))


def output(job: Job, step: str) -> dict[str, Any]:
    """What a finished step of a payment returned."""
    stored = job.steps.get(name=step).output
    assert isinstance(stored, dict)
    return stored
