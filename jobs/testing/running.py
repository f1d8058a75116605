"""Running jobs now, and taking them away from their workers, by moving the rows' timestamps."""

from __future__ import annotations

import uuid
from datetime import timedelta
from unittest import mock

from django.db.models import QuerySet
from django.db.models.functions import Now

from jobs import drain as due
from jobs import moves, publish, registry, runner
from jobs.fence import Claim
from jobs.models import Job
from jobs.states import State
from jobs.sweep import sweep
from jobs.worker import identity

ELSEWHERE = "elsewhere/another-boot/1/1/1"


def drain(*, limit: int = 100) -> int:
    """Run every queued job to its end, due or not; answers how many attempts that took.

    A wait (backoff, ``eta``, deferral) is passed by moving ``run_at``, never by waiting: first runs
    what is due, then what would be due next. What a closed gate parks stays queued. Raises
    AssertionError after ``limit`` attempts: one of the jobs named in it defers for ever.
    """
    for ran in range(limit):
        while not due.drain(limit=1):
            if not _end_first_wait():
                return ran
    waiting = list(Job.objects.filter(state=State.QUEUED).values_list("kind", "key")[:5])
    raise AssertionError(f"after {limit} attempts these are still queued: {waiting}")


def _end_first_wait() -> bool:
    waits = Job.objects.filter(state=State.QUEUED, run_at__gt=Now()).order_by("run_at", "id")
    return bool(Job.objects.filter(pk__in=waits.values("pk")[:1]).update(run_at=Now()))


def attempt(job: Job) -> Job:
    """The job after one attempt, begun now whatever it had to wait for.

    A job that cannot be claimed (running, final, past its deadline) is returned as it is.
    """
    Job.objects.filter(pk=job.pk, state=State.QUEUED).update(run_at=Now())
    runner.execute(job.kind, job.pk)
    job.refresh_from_db()
    return job


def leave_for_dead(job: Job | uuid.UUID) -> None:
    """Let a running job's worker be a process that is gone, and its lease be over; then reap it.

    Nothing runs meanwhile, also where the next attempt has come due before this returns.
    """
    gone = f"{identity().rpartition('/')[0]}/0"
    _running(job).update(worker=gone, lease_until=Now() - timedelta(seconds=1))
    _reap()


def lose_lease(job: Job | uuid.UUID) -> Claim | None:
    """Let another worker take a running job, while its own still runs and knows nothing of it.

    Answers what the other one holds, or None if the loss was one too many and the job is dead.
    Not inside a ``local`` step: its transaction holds the row, so nobody can take the job there.
    """
    _running(job).update(lease_until=Now() - timedelta(seconds=1))
    _reap()
    taken = Job.objects.get(pk=_id(job))
    Job.objects.filter(pk=taken.pk, state=State.QUEUED).update(run_at=Now())
    limit = registry.named(taken.kind).time_limit
    return moves.claim(taken.pk, taken.kind, worker=ELSEWHERE, lease=limit, time_limit=limit)


def _reap() -> None:
    """An upkeep pass that runs nothing: inline mode would, in the midst of a scenario."""
    with mock.patch.object(publish, "drain", return_value=0):
        sweep(reap_now=True)


def _running(job: Job | uuid.UUID) -> QuerySet[Job]:
    return Job.objects.filter(pk=_id(job), state=State.RUNNING)


def _id(job: Job | uuid.UUID) -> uuid.UUID:
    return job.pk if isinstance(job, Job) else job
