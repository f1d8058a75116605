"""Running what is due in the calling thread: inline mode, commands and tests."""

from __future__ import annotations

import threading

from django.db.models import QuerySet
from django.db.models.functions import Now

from jobs import registry, runner, shutdown, transactions
from jobs.gates import behind_closed_gate
from jobs.models import Job
from jobs.states import State

BATCH = 100
_draining = threading.local()


def drain(limit: int = 10_000) -> int:
    """Run due jobs of known kinds, oldest first, until none is due; answers how many ran.

    What a job enqueues is run too, by the outermost call. Does nothing inside a transaction,
    where a claim could not be seen by others; begins nothing once this process is to stop.
    """
    if getattr(_draining, "on", False) or transactions.is_open():
        return 0
    _draining.on = True
    try:
        return _until_nothing_is_due(limit)
    finally:
        _draining.on = False


def _claimable() -> QuerySet[Job]:
    """What a claim would take now, the oldest first."""
    return (
        Job.objects.filter(state=State.QUEUED, run_at__lte=Now(), kind__in=list(registry.KINDS))
        .exclude(deadline_at__lte=Now())
        .exclude(behind_closed_gate())
        .order_by("run_at", "id")
    )


def _until_nothing_is_due(limit: int) -> int:
    ran = 0
    while ran < limit:
        due = _claimable().values_list("kind", "pk")[: min(BATCH, limit - ran)]
        moved = sum(runner.execute(kind, pk) for kind, pk in due if not shutdown.asked())
        if not moved:
            return ran
        ran += moved
    return ran
