"""Where the machine plays: three worker processes, and the seams at which the scheduler decides."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from django.conf import settings
from django.db.models import F

from jobs import moves, over, publish, runner, shutdown, sweep, tasks
from jobs.effects import Call
from jobs.models import Attempt, Gate, Job, Operation, Step, Upkeep
from jobs.statements import persist
from jobs.states import StepState
from jobs.testing.points import Perform, performing
from tests.integration.kernel.interleavings import weave
from tests.integration.kernel.interleavings.model import GRACE
from tests.integration.kernel.interleavings.outside import Clock, Provider
from tests.integration.kernel.interleavings.process import (
    CLOSING,
    Died,
    Place,
    Process,
    here,
    is_here,
)

T = TypeVar("T")
HOSTS = ("ada", "bob", "cyd")


@dataclass
class Stage:
    """What outlives a scene: the processes with their sessions, and the world of the moment."""

    processes: list[Process] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    wakes: list[uuid.UUID] = field(default_factory=list)
    world: Provider = field(default_factory=lambda: Provider(Clock()))

    @property
    def inline(self) -> bool:
        return bool(settings.FIREDOOR_INLINE)

    def cleared(self) -> None:
        """Begin a scene: nothing has happened yet, and nobody is at work."""
        self.gone.clear()
        self.wakes.clear()
        self.world = Provider(Clock())
        for process in self.processes:
            process.born()


class _NoHeart:
    """Leases are renewed when the scheduler says so."""

    @staticmethod
    def keeping(_journal: Any, _kill_at: float) -> Any:
        return nullcontext()


@contextmanager
def stage(patch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Register the kinds, start the processes, and put the scheduler where chance would be.

    Chance is: which process does what next, whether a lease is renewed in time, whether a process
    is alive, which messages arrive, and how much time has passed.
    """
    made = Stage()
    weave.register(lambda: made.world)
    patch.setattr(over, "claimant", lambda **_: here().name)
    patch.setattr(runner, "claimant", lambda **_: here().name)
    patch.setattr(runner, "HEARTBEAT", _NoHeart())
    patch.setattr(runner, "persist", _closing)
    patch.setattr(moves, "finish_step", _cut_before(moves.finish_step))
    patch.setattr(sweep, "GRACE_AFTER", timedelta(seconds=GRACE))
    patch.setattr(over, "is_gone", made.gone.__contains__)
    patch.setattr(over, "is_alive", lambda name: name not in made.gone)
    for name in ("asked", "asked_soon"):
        patch.setattr(shutdown, name, lambda: is_here() and here().stopping)
    patch.setattr(tasks, "send", lambda wakes: made.wakes.extend(wake[0] for wake in wakes))
    patch.setattr(publish._Drains, "serving", True)
    logging.disable()  # thousands of lines that nobody reads
    with performing(_waiting_before):
        made.processes += [Process(host) for host in HOSTS]
        try:
            yield made
        finally:
            for process in made.processes:
                process.ends()
            logging.disable(logging.NOTSET)


def _closing(work: Callable[[], T], seconds: float) -> T:
    """Wait before an attempt closes, and before it closes a gate."""
    here().waits(CLOSING)
    return persist(work, seconds)


def _cut_before(original: Callable[..., T]) -> Callable[..., T]:
    """Die instead of writing a checkpoint, where that was ordered."""

    def finish_step(*args: Any, **words: Any) -> T:
        if here().order.do == "cut":
            raise Died
        return original(*args, **words)

    return finish_step


def _waiting_before(original: Perform) -> Perform:
    """Wait before each step that is not done, and do there what was ordered."""

    def perform(call: Call) -> object:
        process = here()
        process.journal = call.journal
        known = call.journal.checkpoints.get(call.step.name)
        if known is None or known.state is not StepState.DONE:
            process.waits(Place("step", call.step.name))
            if process.order.do == "defer" or (
                process.order.do == "fail" and weave.EFFECTS.get(call.step.name) != "local"
            ):
                weave.obeyed()
        return original(call)

    return perform


_MOMENTS: Sequence[tuple[Any, tuple[str, ...]]] = (
    (
        Job,
        (
            "run_at",
            "wake_at",
            "wait_since",
            "deadline_at",
            "started_at",
            "lease_until",
            "kill_at",
        ),
    ),
    (Step, ("intent_at", "opens_at")),
    (Attempt, ("started_at", "kill_at")),
    (Gate, ("closed_until",)),
    (Upkeep, ("passed_at",)),
    (Operation, ("paced_until",)),
)


def time_passes(on: Stage, seconds: float) -> None:
    """Move every moment that decides something into the past, in rows and in workers' memory."""
    on.world.clock.now += seconds
    ago = timedelta(seconds=seconds)
    for model, names in _MOMENTS:
        model._default_manager.update(**{name: F(name) - ago for name in names})
    for process in on.processes:
        if process.journal is not None:
            process.journal._loaded -= seconds
        if process.run is not None:
            process.run._started -= seconds
