"""Celery's prefork pool, which forgets much about running jobs when the broker is lost.

As it comes, it forgets then which of its children are busy, so that the next messages may be handed
to some that run a job and wait for its end while others are idle; and it forgets until when each
job may run, since the event loop is made anew without the old timers. What it never forgets are the
timers of jobs that have ended: each is kept until it would have struck, a megabyte for 2000 jobs.
And a child that replaces another is made beside open connections to the broker, whose copies it
keeps: when one of them breaks, the main process cannot take it out of its event loop any more,
takes that for news of the connection that got its number, and waits there, maybe for ever. Where
several children end at once, it may take a new one for ended, and is ended itself over it later.
A module of this name, since Celery shows it as the pool's.
*Hole:* while the broker is away the main process only waits for it, and limits strike late; the
heartbeat of the child itself keeps the hard one.
"""

from __future__ import annotations

import heapq
import os
import stat
from time import monotonic
from typing import Any

from celery import signals
from celery.concurrency import asynpool, prefork

AT_ONCE = 0.01  # seconds; zero would mean no limit
FEWEST_TIMERS = 1000
WATCH_AGAIN = 1.0  # seconds


class _Loop:
    """The main process' event loop, as its children inherit it.

    Kombu's own ``get_event_loop`` knows none any more once a connection to the broker was lost.
    """

    hub: Any = None


class Pool(asynpool.AsynPool):
    """Remembers, whatever happens to the broker, who is busy and until when."""

    _cache: dict[int, Any]  # its stubs lack these
    _busy_workers: set[int]
    _pool: list[Any]
    _fileno_to_inq: dict[int, Any]
    on_timeout_set: Any
    _most_timers = FEWEST_TIMERS

    def flush(self) -> None:
        """Forget what was not begun, when the connection to the broker was lost."""
        super().flush()
        children = [job._write_to for job in self._running() if job._write_to is not None]
        inlets = {child.inqW_fd: child for child in children}
        # One that has died may have left its number to another.
        busy = {fd for fd, child in inlets.items() if self._fileno_to_inq.get(fd) is child}
        self._busy_workers.update(busy)

    def register_with_event_loop(self, hub: Any) -> None:
        """Take part in an event loop: the first one, or one after a lost connection."""
        _Loop.hub = hub
        super().register_with_event_loop(hub)
        for job in self._running():
            self._limit(job)

    def _event_process_exit(self, hub: Any, proc: Any) -> None:
        """Replace a child that has ended; watch on where it has not.

        Of several that end at once the news may come under a number that a new one has by now:
        Celery then watches that one no longer, and ends the whole worker over it when it next
        connects to the broker.
        """
        super()._event_process_exit(hub, proc)  # type: ignore[misc]  # its stubs lack it
        if proc in self._pool:
            hub.call_later(WATCH_AGAIN, self._watch, proc)

    def _watch(self, proc: Any) -> None:
        if proc in self._pool:
            self._track_child_process(proc, _Loop.hub)

    def _track_child_process(self, proc: Any, hub: Any) -> None:
        """Watch for a child's end, also where it was seen before."""
        if getattr(proc, "_sentinel_poll", 0) is None:
            if proc._popen is None or proc._popen.sentinel is None:
                return  # it was joined, and is about to leave the pool
            del proc._sentinel_poll
        super()._track_child_process(proc, hub)  # type: ignore[misc]  # its stubs lack it

    def _create_timelimit_handlers(self, hub: Any) -> None:
        """Let the timers of ended jobs be thrown away whenever half of all may be such."""
        super()._create_timelimit_handlers(hub)  # type: ignore[misc]  # its stubs lack it
        set_timer = self.on_timeout_set

        def set_and_tidy(job: Any, soft: float | None, hard: float | None) -> None:
            set_timer(job, soft, hard)
            if len(hub.timer) > self._most_timers:
                tidy(hub.timer)
                self._most_timers = max(FEWEST_TIMERS, 2 * len(hub.timer))

        self.on_timeout_set = set_and_tidy

    def _limit(self, job: Any) -> None:
        """Set the timers of a running job for what is left of its time."""
        ran = monotonic() - job._time_accepted
        soft, hard = job._soft_timeout, job._timeout
        if soft is not None:
            soft = None if getattr(job, "was_told", False) else max(AT_ONCE, soft - ran)
        if hard is not None:
            hard = max(AT_ONCE + (soft or 0), hard - ran)
        self.on_timeout_set(job, soft, hard)

    def _on_soft_timeout(self, job: int, *rest: Any) -> None:
        if job in self._cache:
            self._cache[job].was_told = True
        super()._on_soft_timeout(job, *rest)  # type: ignore[misc]  # its stubs lack it

    def _running(self) -> list[Any]:
        return [job for job in self._cache.values() if job._accepted and not job.ready()]


def tidy(timer: Any) -> None:
    """Throw away what was cancelled; in place, since the event loop holds this very list."""
    timer._queue[:] = [each for each in timer._queue if not each.entry.canceled]
    heapq.heapify(timer._queue)


@signals.worker_process_init.connect(weak=False)
def let_go(**_: Any) -> None:
    """Give up this child's copies of the sockets that its main process polls.

    Their numbers stay taken, by nothing: objects that came along may still close them.
    """
    hub = _Loop.hub
    if hub is None:
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    waker = getattr(hub, "_waker", None)  # what other threads wake the loop by
    for number in {*hub.readers, *hub.writers, *([waker.fileno()] if waker else ())}:
        if _is_socket(number):
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


def _is_socket(number: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False


class TaskPool(prefork.TaskPool):
    Pool = Pool
