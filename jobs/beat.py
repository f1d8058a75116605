"""The beat scheduler whose tick is the upkeep pass: no message, no broker, any number of beats.

A pass a second, and one in between where a lease or a wait ends: a retry then comes when its wait
is over, not up to a second later, and a lost job twice as much earlier. While something waits for
its share behind a gate, shares are filled up between the passes.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

from celery.beat import Scheduler
from django.db import close_old_connections, connection
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from jobs.models import Job
from jobs.statements import UNREACHABLE
from jobs.states import State
from jobs.sweep import fault, fill_shares, sweep, until_shares
from workspaces.outages import is_unmigrated

logger = logging.getLogger(__name__)

INTERVAL = 1.0
SHORTEST = 0.2  # a thousand jobs whose waits end one after the other make no thousand passes
NEARLY = 0.02  # seconds between two ticks that are as good as one
CLEANUP_SECONDS = 3600.0


class UpkeepScheduler(Scheduler):
    """Runs one upkeep pass a second. Nothing escapes ``tick``, since that would end beat."""

    _clean_at = 0.0  # by the monotonic clock
    _pass_at = 0.0  # by the same clock, where a tick before the next pass fills shares
    _outage = False  # whether the last pass found no database, as the workers may have

    def setup_schedule(self) -> None:
        """Keep no static entries: schedules are rows."""

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """One pass; seconds until the next."""
        close_old_connections()
        try:
            if self._is_between_passes():
                fill_shares()
                return self._next(self._pass_at - time.monotonic())
            sweep(after_outage=self._outage)
            self._outage = False
            self._forget_old_envelopes()
            return self._next(_pause())
        except Exception as error:  # noqa: BLE001  told below; nothing may escape
            self._outage = self._outage or isinstance(error, UNREACHABLE)
            self._pass_at = 0.0
            connection.close()
            _tell(error)
        return INTERVAL

    def _is_between_passes(self) -> bool:
        return time.monotonic() + NEARLY < self._pass_at

    def _next(self, pause: float) -> float:
        """Seconds until the next tick: that of the next pass, or one for shares before it."""
        left = until_shares()
        self._pass_at = 0.0
        if left is None or left + NEARLY >= pause:
            return max(0.0, pause)
        self._pass_at = time.monotonic() + pause
        return max(NEARLY, left)

    def _forget_old_envelopes(self) -> None:
        """Once an hour; Celery would send itself a message for it, and need a worker."""
        if time.monotonic() >= self._clean_at:
            self._clean_at = time.monotonic() + CLEANUP_SECONDS
            self.app.backend.cleanup()

    @property
    def info(self) -> str:
        return f"    . upkeep -> every {INTERVAL:.0f} s"


def _tell(error: Exception) -> None:
    """Say what ended a pass; in one line where all it takes is a command."""
    if is_unmigrated(error):
        words = {"help": "beat waits for its tables: run manage.py migrate"}
        logger.error("beat.not_migrated", extra=words)
        return
    logger.error("beat.pass_failed", exc_info=error)
    fault.send_robust(sender=None, work="pass", error=error)


def _pause() -> float:
    """Seconds until the next pass.

    First wakes that a worker may have lost are not waited for, or a long backlog, in which one
    falls into every moment, would be published over again as fast as beat can.
    """
    soon = Now() + timedelta(seconds=INTERVAL)
    waits = Job.objects.filter(state=State.QUEUED, wake_at__gt=Now(), wake_at__lt=soon)
    leases = Job.objects.filter(state=State.RUNNING, lease_until__gt=Now(), lease_until__lt=soon)
    first = min(_left(waits.exclude(wait_reason=""), "wake_at"), _left(leases, "lease_until"))
    return max(SHORTEST, first)


def _left(jobs: QuerySet[Job], moment: str) -> float:
    """Seconds until just after the first such moment, or until the next pass that comes anyway."""
    rows = jobs.order_by(moment).annotate(left=F(moment) - Now()).values_list("left", flat=True)
    left = rows.first()
    return INTERVAL if left is None else min(INTERVAL, left.total_seconds() + 0.01)
