"""What the kernel's tests share: one attempt at a time, and time that passes in rows."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from jobs import runner
from jobs.models import Job
from workspaces.models import Workspace


def new_workspace() -> Workspace:
    return Workspace.objects.create(slug=f"w{uuid.uuid4().hex[:10]}", name="W")


def attempt(job: Job) -> Job:
    """One attempt, whatever the job waits for by the clock."""
    Job.objects.filter(pk=job.pk, state="queued").update(run_at=Now())
    runner.execute(job.kind, job.pk)
    return seen(job)


def attempts(job: Job, most: int = 12) -> Job:
    """Attempts until the job is final."""
    for _ in range(most):
        if attempt(job).final:
            return job
    raise AssertionError(f"not final after {most} attempts: {job.state} {job.wait_reason}")


def seen(job: Job) -> Job:
    job.refresh_from_db()
    return job


def passes(job: Job, seconds: float) -> None:
    """Let time pass for one job: every moment in its row moves into the past."""
    ago = timedelta(seconds=seconds)
    moments = (
        "run_at",
        "wake_at",
        "wait_since",
        "deadline_at",
        "started_at",
        "lease_until",
        "kill_at",
    )
    Job.objects.filter(pk=job.pk).update(**{name: F(name) - ago for name in moments})


def started(
    job: Job, *, worker: str = "elsewhere/b/n/1/1", lease: float = 60, limit: float = 900
) -> Job:
    """Let a worker that is not this process hold the job."""
    now = Now()
    Job.objects.filter(pk=job.pk).update(
        state="running",
        attempt=F("attempt") + 1,
        worker=worker,
        started_at=now,
        lease_until=now + timedelta(seconds=lease),
        kill_at=now + timedelta(seconds=limit),
    )
    return seen(job)


def outcomes(job: Job) -> list[str]:
    return list(job.attempts.order_by("number").values_list("outcome", flat=True))


def steps(job: Job) -> dict[str, str]:
    return dict(job.steps.order_by("pk").values_list("name", "state"))


def counts(*models: Any) -> list[int]:
    """How many rows each table has."""
    return [model.objects.count() for model in models]


def answer(ledger: str, text: str) -> None:
    """What the provider of ``drills`` says when it is asked."""
    Path(f"{ledger}.answer").write_text(text)
