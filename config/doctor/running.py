"""Does every running attempt still have a worker, and will it end?"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db.models.functions import Now

from config.doctor.answer import Answer, Level
from config.doctor.check import check
from config.doctor.sight import Sight
from config.doctor.stuck import stuck
from jobs.models import Job
from jobs.states import State

MOMENT = timedelta(seconds=10)
PATIENCE = timedelta(minutes=1)
LONG = timedelta(minutes=15)
RUNNING = Job.objects.filter(state=State.RUNNING)


@check("jobs.lease_expired", needs="database.migrations", command="manage.py sweep")
def lease_expired(_sight: Sight) -> Answer:
    """Are attempts of lost workers taken back?

    Their worker no longer renews its lease: killed, frozen, or cut off from the database. Upkeep
    takes the job back within a second (after an outage, one lease later). If it did not, no beat
    runs, or it meets an error on the row: see upkeep.faults.
    """
    return stuck(
        RUNNING.filter(lease_until__lt=Now() - PATIENCE),
        Level.FAIL,
        "lost its worker over a minute ago and was not taken back.",
        "No running job has lost its worker.",
    )


@check("jobs.past_limit", needs="database.migrations", command="manage.py job show ROW")
def past_limit(_sight: Sight) -> Answer:
    """Does every attempt end by its hard time limit?

    Somebody renews the lease of an attempt that should be over: its process was to be killed at
    the limit. Find the process (``worker`` in ``job show`` names host and pid) and kill it; what
    it writes later is void. Inline mode does not enforce time limits.
    """
    return stuck(
        RUNNING.filter(kill_at__lt=Now() - MOMENT, lease_until__gt=Now()),
        Level.WARN if settings.FIREDOOR_INLINE else Level.FAIL,
        "past its hard time limit, and its lease is still being renewed.",
        "No attempt is past its time limit.",
    )


@check("jobs.cancel_ignored", needs="database.migrations", command="manage.py job show ROW")
def cancel_ignored(_sight: Sight) -> Answer:
    """Do running jobs stop when they are asked to?

    A job stops at its next step boundary. One that was asked fifteen minutes ago is in a long step
    or in code that never looks; its time limit ends it. Long code between steps should call
    ``run.check()``.
    """
    return stuck(
        RUNNING.filter(cancel_requested_at__lt=Now() - LONG),
        Level.WARN,
        "asked to stop over fifteen minutes ago and still running.",
        "Running jobs stop when asked.",
    )
