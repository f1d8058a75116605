"""Whether an attempt can surely do nothing any more: only then is *it did not happen* believed.

An attempt is over once its own worker reported an outcome, or its process is gone, or it does not
run in this very process. Where a hard time limit ends the process, that moment proves it as well,
unless the process is seen alive after it; inline nothing does, so that time alone proves nothing.
*Hole:* what a handler leaves running, a thread or a program of its own, is not seen; nor is a
paused process of another machine or container. A process that lost its lease, came back and lives
on is waited for as well, until it takes the job itself or ends.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import connection
from django.db.models import DurationField, ExpressionWrapper, F, Q
from django.db.models.functions import Now

from jobs import worker
from jobs.fence import Fence
from jobs.models import Attempt
from jobs.states import AttemptOutcome
from jobs.worker import identity, is_alive, is_gone, is_limited, of_earlier_boot

ASK_AGAIN = 60.0  # seconds, while a process that nothing has ended is seen alive
REAPED = Q(outcome=AttemptOutcome.LOST) | Q(outcome=AttemptOutcome.TIMED_OUT, error_class="")

_here: set[tuple[uuid.UUID, int, str]] = set()
os.register_at_fork(after_in_child=_here.clear)  # those run in the parent


def claimant(*, inline: bool) -> str:
    """The name under which this process claims."""
    return worker.unlimited(identity()) if inline else identity()


@contextmanager
def running_here(fence: Fence) -> Iterator[None]:
    """Know, while the block lasts, that this attempt runs in this process."""
    attempt = fence.job_id, fence.attempt, fence.worker
    _here.add(attempt)
    try:
        yield
    finally:
        _here.discard(attempt)


def has_ended(name: str) -> bool:
    """Whether the process of this name has surely ended.

    SQLite's file is shared within one machine only, so that an earlier boot is over there.
    """
    return is_gone(name) or (connection.vendor == "sqlite" and of_earlier_boot(name))


def seconds_until_over(job_id: uuid.UUID, number: int) -> float | None:
    """How long until an attempt can surely do nothing any more; 0: now; None: nobody can know.

    One without a row has only deferred.
    """
    left = ExpressionWrapper(F("kill_at") - Now(), output_field=DurationField())
    reaped = Attempt.objects.filter(REAPED, job_id=job_id, number=number)
    writer = reaped.annotate(left=left).first()
    if writer is None or has_ended(writer.worker) or _returned(writer):
        return 0.0
    until_kill: timedelta = writer.left
    seconds = max(0.0, until_kill.total_seconds())
    limited = is_limited(writer.worker)
    if limited and seconds:
        return seconds
    if is_alive(writer.worker):  # paused, with whoever was to end it
        return ASK_AGAIN
    return seconds if limited else seconds or None


def _returned(attempt: Attempt) -> bool:
    """Whether it ran in this very process, and does not any more."""
    mine = attempt.worker in (claimant(inline=True), claimant(inline=False))
    return mine and (attempt.job_id, attempt.number, attempt.worker) not in _here
