"""One scene: what is done is done in truth and to the model, and both are compared after it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pytest
from django.db.models.functions import Now

from jobs import runner
from jobs.enqueue import enqueue
from jobs.models import Job
from jobs.recovery.retry import retry
from tests.emptying import empty
from tests.integration.kernel.interleavings import verbs, weave
from tests.integration.kernel.interleavings.course import Course, Execution
from tests.integration.kernel.interleavings.model import Model, Record
from tests.integration.kernel.interleavings.outside import Intent
from tests.integration.kernel.interleavings.process import IDLE, Order, Place, Process
from tests.integration.kernel.interleavings.record import DRIFT, Seen, check, compare
from tests.integration.kernel.interleavings.stage import Stage, time_passes
from tests.integration.kernel.scene import new_workspace
from workspaces.actors import SYSTEM
from workspaces.errors import FiredoorError

T = TypeVar("T")
TICK = 0.01  # so that moments which are whole minutes apart never fall together
LATE = 60.0
WHY = "the scheduler says so"


class Scene:
    """Some jobs, three worker processes, one provider, and a clock of their own."""

    def __init__(self, stage: Stage) -> None:
        empty()
        stage.cleared()
        self.stage, self.world = stage, stage.world
        self.workspace = new_workspace()
        self.model = Model(stage.world.clock, inline=stage.inline)
        self.model.gone = stage.gone
        self.roots: dict[tuple[str, str], Record] = {}
        self.at_work: dict[Process, tuple[Execution, Course]] = {}
        self.acted: set[Process] = set()
        self.listed: list[tuple[Callable[..., bool], Any]] = []  # what a slow sweeper will do
        self.begun = time.monotonic()
        self.seen, self.unseen = Seen.of_this_moment(), False

    def ends(self) -> None:
        """Nobody is at work any more, whatever went wrong."""
        for process in self.stage.processes:
            if process.place != IDLE:
                process.goes_on(Order("die"))

    def look(self) -> None:
        """Hold the guarantees, then compare every row."""
        if self.is_stale:
            return
        before, self.seen, self.unseen = self.seen, Seen.of_this_moment(), False
        check(before, self.seen, self.world)
        compare(self.seen, self.model)

    @property
    def is_stale(self) -> bool:
        """Whether so much real time has passed, on a busy machine, that it may decide something.

        Nothing more is done then.
        """
        return time.monotonic() - self.begun > DRIFT - 10

    # --- jobs

    def enqueued(self, kind: str, key: str, steps: list[str], account: str) -> Job:
        """A new intent, or what the key answers that is taken."""
        params = {"steps": steps, "account": account}
        job = enqueue(kind, workspace=self.workspace, key=key, params=params)
        if (kind, key) not in self.roots:
            assert job.created
            made = self.model.enqueued(f"{kind[6]}.{key}", kind, tuple(steps), account)
            made.id, self.roots[kind, key] = job.pk, made
        return job

    def retried(self, record: Record, mode: str) -> Record | None:
        """The one successor, old or new; None where both refuse it."""
        made = self.agreed(
            lambda: verbs.retry(self.model, record, mode, f"{record}+"),
            lambda: retry(record.id, mode=mode, actor=SYSTEM, reason=WHY),
        )
        if made is None:
            return None
        (successor, new), job = made
        if new:
            successor.id = job.pk
        assert (job.pk, job.created) == (successor.id, new), "there is another successor"
        return successor

    def agreed(self, meant: Callable[[], T], done: Callable[[], Any]) -> tuple[T, Any] | None:
        """The model and the service do it, or both refuse."""
        try:
            told = meant()
        except verbs.Refusal:
            with pytest.raises(FiredoorError):
                done()
            return None
        return told, done()

    # --- workers

    def claimed(self, process: Process, record: Record) -> None:
        """A worker takes a job, and waits before its first step."""
        self.model.claimed(record, process.name)
        execution = Execution(self.model, self.world, process, record)
        course = execution.course()
        self.at_work[process] = execution, course
        expected = next(course)
        self.came_to(process, process.begins(partial(runner.execute, record.kind, record.id)))
        assert process.place == expected, f"{record}: {process.place}, not {expected}"
        self.unseen = True

    def hops(self, process: Process, most: int) -> None:
        """All goes well for so many hops, or until the attempt is over."""
        for _ in range(most):
            if process in self.at_work:
                self.hop(process, Order())

    def hop(self, process: Process, order: Order) -> None:
        """A worker goes on to the next place where it waits."""
        if self.unseen:
            self.look()
        execution, course = self.at_work[process]
        if order.do == "go":
            order = self.with_output(process, order)
        expected = _next_place(course, order)
        self.acted.discard(process)
        self.came_to(process, process.goes_on(order))
        assert process.place == expected, f"{execution.record}: {process.place}, not {expected}"
        self.unseen = True

    def with_output(self, process: Process, order: Order) -> Order:
        """What comes back if all goes well; outside, it has happened then."""
        name, execution = process.place.step, self.at_work[process][0]
        if process.place.at == "inside":
            self.provider_has_acted(process)
        output = self.world.output(execution.intent(name)) if name else None
        return Order(order.do, order.error, order.swallow, order.answer, output)

    def came_to(self, process: Process, place: Place) -> None:
        execution, _ = self.at_work[process]
        if place == IDLE:
            del self.at_work[process]
            if process.stopping:
                self.stage.gone.add(process.name)
                process.born()
        elif place.at == "inside":
            if process.key:
                self.world.receives(execution.intent(place.step), process.key)
            self.is_no_repetition(execution, place.step)

    def is_no_repetition(self, execution: Execution, step: str) -> None:
        """A finished step never runs again, by whoever owns the job."""
        if execution.mine or weave.EFFECTS[step] == "once":
            row = self.seen.steps.get((execution.record.id, step))
            assert row is None or row["state"] != "done", f"{step} runs again"

    def provider_has_acted(self, process: Process) -> None:
        """The effect happens, once for each request."""
        execution, step = self.at_work[process][0], process.place.step
        if process not in self.acted and weave.EFFECTS[step] in ("keyed", "once"):
            self.acted.add(process)
            self.world.acts(execution.intent(step), process.key)

    def dies(self, process: Process, how: str = "die") -> None:
        """SIGKILL. Another process starts in its place."""
        _, course = self.at_work.pop(process)
        course.close()
        self.acted.discard(process)
        self.stage.gone.add(process.name)
        if process.goes_on(Order(how)) != IDLE:  # something ended the attempt before it got there
            assert process.goes_on(Order("die")) == IDLE
        process.born()

    def lease_ends(self, record: Record) -> None:
        """The lease of one job has been over for a while."""
        self.lease_of(record.id)
        record.lease_until = self.model.now - LATE

    def lease_of(self, job_id: uuid.UUID) -> None:
        late = Now() - timedelta(seconds=LATE)
        Job.objects.filter(pk=job_id, state="running").update(lease_until=late)

    def passes(self, seconds: float) -> None:
        """Time passes; whoever has reached its hard limit is no more, unless it runs inline."""
        time_passes(self.stage, seconds + TICK)
        for process, (execution, _) in list(self.at_work.items()):
            if execution.kill_at <= self.model.now and not self.model.inline:
                self.dies(process)

    # --- who may act

    def idle(self) -> list[Process]:
        return [p for p in self.stage.processes if p not in self.at_work]

    def waiting_outside(self) -> list[Process]:
        """Those whose request is under way and has not taken effect."""
        return [p for p in self.at_work if p.place.at == "inside" and p not in self.acted]

    def may_still_happen(self, intent: Intent) -> bool:
        """Whether somebody's request for it is under way."""
        return any(self.at_work[p][0].intent(p.place.step) == intent for p in self.at_work_inside())

    def at_work_inside(self) -> list[Process]:
        return [p for p in self.at_work if p.place.at == "inside"]


def running(scene: Scene) -> list[Record]:
    return [record for record in scene.model.records if record.state == "running"]


def _next_place(course: Course, order: Order) -> Place:
    """Where the model's worker waits next."""
    try:
        return course.send(order)
    except StopIteration:
        return IDLE
