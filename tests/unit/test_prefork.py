"""The pool throws away the timers of jobs that have ended, and none of a job that runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kombu.asynchronous.timer import Timer

from config import prefork
from config.prefork import Pool


@pytest.fixture
def timer() -> Timer:
    return Timer()


@pytest.fixture
def pool(timer: Timer) -> Pool:
    """A pool that has no children, with the timers of its event loop."""
    pool = Pool.__new__(Pool)
    pool._cache = {}
    hub = SimpleNamespace(
        timer=timer, call_later=lambda after, *rest: timer.call_after(after, rest[0], rest[1:])
    )
    pool._create_timelimit_handlers(hub)
    return pool


def begun(pool: Any, number: int, seconds: float = 900.0) -> SimpleNamespace:
    job = SimpleNamespace(_job=number)
    pool.on_timeout_set(job, None, seconds)
    return job


def test_twenty_thousand_jobs_leave_no_more_than_a_thousand_timers(pool: Any, timer: Timer) -> None:
    for number in range(20_000):
        pool.on_timeout_cancel(begun(pool, number))
    assert len(timer) <= prefork.FEWEST_TIMERS + 1


def test_the_timers_of_running_jobs_stay_and_strike_in_turn(pool: Any, timer: Timer) -> None:
    struck: list[int] = []
    pool._on_hard_timeout = struck.append
    # Further apart than any pause between two of them: their order is that of their numbers.
    running = [begun(pool, number, seconds=-1000.0 * number) for number in range(2000)]
    for number in range(2000, 6000):
        pool.on_timeout_cancel(begun(pool, number))
    for job in running[:500]:
        pool.on_timeout_cancel(job)
    prefork.tidy(timer)
    for _wait, entry in timer:
        if entry is None:
            break
        entry()
    assert struck == list(range(1999, 499, -1))
    assert len(timer) == 0
