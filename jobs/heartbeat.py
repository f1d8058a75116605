"""The thread that keeps the leases of this worker process, and ends the process at its limit.

One daemon thread a process, started by the first attempt in the forked child, with a database
connection of its own. Each attempt is renewed when a third of its lease has passed. At an
attempt's ``time_limit``, by a monotonic clock that is read before any SQL, it kills its own
process: then, and only then, is it true that the attempt can do nothing more after ``kill_at``.
*Hole:* C code that holds the interpreter lock for longer than the lease starves this thread; the
lease is lost, the fence voids the attempt's writes.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import connection, transaction
from structlog.contextvars import bound_contextvars

from jobs import moves
from jobs.journal import Journal
from jobs.statements import bound_waiting
from jobs.stops import LeaseLost

logger = logging.getLogger(__name__)

_IDLE_TICKS = 10
LOCK_SECONDS = 2


@dataclass(eq=False)
class Beat:
    """One attempt to keep alive. Times are by the monotonic clock."""

    journal: Journal
    kill_at: float
    renewed: float = field(default_factory=time.monotonic)


class Heartbeat:
    """The beats of one process."""

    def __init__(self) -> None:
        self._beats: set[Beat] = set()
        self._pid = 0
        self._lock = threading.Lock()

    @contextmanager
    def keeping(self, journal: Journal, kill_at: float) -> Iterator[None]:
        """Renew the journal's lease while the block lasts; end the process at ``kill_at``."""
        beat = Beat(journal, kill_at)
        self._start()
        self._beats.add(beat)
        try:
            yield
        finally:
            self._beats.discard(beat)

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                return
            self._pid = os.getpid()  # after a fork the parent's thread is not here
            self._beats.clear()
            threading.Thread(target=self._loop, name="firedoor-heartbeat", daemon=True).start()

    def _loop(self) -> None:
        idle = 0
        while True:
            beats = list(self._beats)
            idle = 0 if beats else idle + 1
            if idle == _IDLE_TICKS:
                connection.close()
            pause = min((self._pause(beat) for beat in beats), default=1.0)
            time.sleep(pause)  # noqa: TID251  a heartbeat is a clock
            self._pass(beats)

    @staticmethod
    def _pause(beat: Beat) -> float:
        left = beat.kill_at - time.monotonic()
        return max(0.01, min(1.0, beat.journal.fence.lease / 6, left))

    def _pass(self, beats: list[Beat]) -> None:
        now = time.monotonic()
        for beat in beats:
            if beat in self._beats and beat.kill_at <= now:
                with bound_contextvars(**beat.journal.claim.words):
                    logger.critical("heartbeat.time_limit", extra={"pid": os.getpid()})
                os.kill(os.getpid(), signal.SIGKILL)
        for beat in beats:
            if beat in self._beats and now - beat.renewed >= beat.journal.fence.lease / 3:
                with bound_contextvars(**beat.journal.claim.words):
                    _renew(beat)


def _renew(beat: Beat) -> None:
    """One renewal. "Lock not available" is neither renewed nor lost; only no row is lost."""
    try:
        with transaction.atomic():
            bound_waiting(LOCK_SECONDS)
            standing = moves.renew(beat.journal.fence)
        beat.journal.noted(standing)
        beat.renewed = time.monotonic()
    except LeaseLost:
        logger.warning("heartbeat.lease_lost")
        beat.renewed = time.monotonic()
    except Exception as error:  # noqa: BLE001  this thread must outlive whatever happens
        logger.warning("heartbeat.not_renewed", extra={"error": type(error).__name__})
        connection.close()


HEARTBEAT = Heartbeat()
