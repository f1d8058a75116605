"""What the tests of the kernel do to jobs, and what they look at."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from jobs.kinds import Intended
from jobs.models import Attempt, Event, Job, Step
from jobs.recovery.retry import retry
from jobs.sweep import Pass, sweep
from jobs.testing import attempt, drain
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace

HOUR = 3600.0


def waiting(intended: Intended, workspace: Workspace, key: str = "a", **more: Any) -> Job:
    """A job that is not due for an hour, so that nothing but the test runs it."""
    return intended.enqueue(workspace=workspace, key=key, countdown=HOUR, **more)


def tried(intended: Intended, workspace: Workspace, key: str = "a") -> Job:
    """A new job after its first attempt."""
    return attempt(waiting(intended, workspace, key))


def ended(intended: Intended, workspace: Workspace, key: str = "a") -> Job:
    """A new job that was run to its end, with all its automatic retries."""
    job = waiting(intended, workspace, key)
    drain()
    job.refresh_from_db()
    return job


def resumed(job: Job, mode: str = "resume") -> Job:
    """The successor that an operator made, run to its end."""
    successor = retry(job.pk, mode=mode, actor=SYSTEM, reason="the cause is mended")
    drain()
    successor.refresh_from_db()
    return successor


def claimed_elsewhere(job: Job, **values: Any) -> Job:
    """A job that some worker elsewhere runs, with a lease of a minute."""
    told = {
        "state": "running",
        "attempt": 1,
        "worker": "elsewhere/boot/1/1/1",
        "started_at": Now(),
        "lease_until": Now() + timedelta(minutes=1),
        "kill_at": Now() + timedelta(minutes=15),
    }
    Job.objects.filter(pk=job.pk).update(**{**told, **values})
    job.refresh_from_db()
    return job


def expired(job: Job) -> Job:
    """A running job whose lease has run out."""
    Job.objects.filter(pk=job.pk).update(lease_until=Now() - timedelta(seconds=1))
    job.refresh_from_db()
    return job


def swept(job: Job) -> Job:
    """The job after a pass that reaps at once."""
    reaping()
    job.refresh_from_db()
    return job


def reaping() -> Pass:
    return sweep(reap_now=True)


def outcomes(job: Job) -> list[tuple[str, str]]:
    """Outcome and reason of each attempt, oldest first."""
    return list(job.attempts.order_by("number").values_list("outcome", "reason"))


def states(job: Job) -> dict[str, str]:
    """The state of each recorded step."""
    return dict(job.steps.values_list("name", "state"))


def told(job: Job) -> list[str]:
    """The types of the events about a job, oldest first."""
    events = Event.objects.filter(subject=str(job.pk)).order_by("pk")
    return list(events.values_list("type", flat=True))


def counts() -> dict[str, int]:
    """How many rows of each sort there are."""
    models = (Job, Attempt, Step, Event, AuditEvent)
    return {model.__name__: model.objects.count() for model in models}


def about(seconds: float, wait: timedelta) -> bool:
    """Whether a wait is so long, but for what passes between two statements of a starved process.

    No two waits that a test tells apart are closer than thirty seconds.
    """
    return abs(wait.total_seconds() - seconds) < 15
