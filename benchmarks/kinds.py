"""The kinds of job that are measured: nothing to do, in no step, one step or three."""

from __future__ import annotations

from datetime import timedelta
from threading import Event

from benchmarks.stamps import mark
from jobs.kinds import Run, job_kind, step


@job_kind("bench.noop")
def noop(run: Run) -> None:
    mark()


@step("first")
def first() -> None: ...


@step("second")
def second() -> None: ...


@step("third")
def third() -> None: ...


@job_kind("bench.one_step", steps=(first,))
def one_step(run: Run) -> None:
    run(first)
    mark()


@job_kind("bench.three_steps", steps=(first, second, third))
def three_steps(run: Run) -> None:
    run(first)
    run(second)
    run(third)
    mark()


@job_kind("bench.posted", api=True)
def posted(run: Run, *, order_id: str, cents: int) -> None: ...


HELD_LEASE = timedelta(seconds=6)


@job_kind("bench.held", lease=HELD_LEASE)
def held(run: Run) -> None:
    """Hold the first attempt until its process is killed; the next one ends at once."""
    mark()
    if run.attempt == 1:
        Event().wait(60)
