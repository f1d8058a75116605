"""Bulk deeds among everything else: their engine is one more job, an item a hop."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from django.db.models.functions import Now
from hypothesis import strategies as st

from jobs import moves, runner
from jobs.models import Job, Operation, OperationItem
from jobs.recovery import operation as service
from jobs.recovery.cancel import cancel
from jobs.recovery.draft import Care, draft
from jobs.recovery.job_verbs import ENGINE
from jobs.states import State
from jobs.stops import LeaseLost
from tests.integration.kernel.interleavings import verbs
from tests.integration.kernel.interleavings.acts import act
from tests.integration.kernel.interleavings.model import Record
from tests.integration.kernel.interleavings.operators import Operators, room_for_more
from tests.integration.kernel.interleavings.process import IDLE, Order, Process
from tests.integration.kernel.interleavings.scene import WHY, Scene
from tests.integration.kernel.interleavings.stage import Stage
from tests.integration.kernel.interleavings.upkeep import Upkeep
from workspaces.actors import SYSTEM
from workspaces.errors import FiredoorError

LIMIT = 900.0  # the engine's own hard time limit
NEXT = {
    "draft": {"running", "stopped"},
    "running": {"paused", "stopped", "finished"},
    "paused": {"running", "stopped", "finished"},  # with nothing left to hold back
}


@dataclass
class Bulk:
    """An operation as it was last seen."""

    id: Any
    verb: str
    records: list[Record]
    state: str = "draft"
    outcomes: list[str] = field(default_factory=list)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(f"{self.verb} of {self.records}, {self.state}")


class Bulks(Scene):
    """A scene with operations. What their items did is done to the model too."""

    def __init__(self, stage: Stage) -> None:
        self.bulks: list[Bulk] = []
        self.engines: dict[Process, tuple[Bulk, float]] = {}
        super().__init__(stage)

    def idle(self) -> list[Process]:
        return [process for process in super().idle() if process not in self.engines]

    def passes(self, seconds: float) -> None:
        super().passes(seconds)
        for process, (_, since) in list(self.engines.items()):
            if self.model.now - since >= LIMIT:
                self.engine_dies(process)

    def look(self) -> None:
        for bulk in self.bulks:
            self.look_at(bulk)
        super().look()

    # --- operations

    def look_at(self, bulk: Bulk) -> None:
        """An end is an end, and nobody but the engine does anything."""
        row = Operation.objects.get(pk=bulk.id)
        assert _outcomes(bulk) == bulk.outcomes, "an item was done by nobody"
        if row.state != bulk.state:
            assert row.state in NEXT.get(bulk.state, ()), f"{bulk.state} became {row.state}"
        if row.state == "finished":
            assert "pending" not in bulk.outcomes
        bulk.state = row.state

    def engine_comes_to(self, process: Process, place: Any) -> None:
        """At most one item was done on the way; the model does what it did."""
        bulk, _ = self.engines[process]
        before, after = bulk.outcomes, _outcomes(bulk)
        changed = [n for n, outcome in enumerate(before) if after[n] != outcome]
        assert len(changed) <= 1
        for number in changed:
            assert before[number] == "pending", "an item was done again"
            assert bulk.state == "running", f"an item was done while it was {bulk.state}"
            self.item_was(bulk, number, after[number])
        bulk.outcomes = after
        if place == IDLE:
            del self.engines[process]

    def item_was(self, bulk: Bulk, number: int, outcome: str) -> None:
        record = bulk.records[number]
        item = OperationItem.objects.get(operation_id=bulk.id, position=number + 1)
        try:
            made = self.deed(bulk.verb, record)
        except verbs.Refusal:
            assert outcome == "skipped", f"{bulk.verb} of {record} was {outcome}: {item.code}"
            return
        assert outcome == "done", f"{bulk.verb} of {record} was {outcome}: {item.sentence}"
        if made is not record:
            made.id = Job.objects.get(retry_of_id=record.id).pk
        assert item.result_id == str(made.id)

    def deed(self, verb: str, record: Record) -> Record:
        """What a bulk deed does to one job; it never touches what needs a person's eyes."""
        model = self.model
        retries = verb in ("resume", "restart")
        doubtful = record.cause == "uncertain" or record.has_open(model.now)
        if doubtful or (retries and (record.resolved or record.successor)):
            raise verbs.Refusal
        if retries:
            return verbs.retry(model, record, verb, f"{record}+")[0]
        if verb == "cancel":
            verbs.cancel(model, record)
        else:
            verbs.resolve(record)
        return record

    def engine_dies(self, process: Process) -> None:
        self.engines.pop(process)
        self.stage.gone.add(process.name)
        assert process.goes_on(Order("die")) == IDLE
        process.born()

    def engine_of(self, bulk: Bulk) -> Any:
        return Operation.objects.get(pk=bulk.id).job_id

    def engine_jobs(self) -> list[Job]:
        return list(Job.objects.filter(kind=ENGINE).order_by("created_at"))


def _outcomes(bulk: Bulk) -> list[str]:
    items = OperationItem.objects.filter(operation_id=bulk.id).order_by("position")
    return list(items.values_list("outcome", flat=True))


def in_state(*states: str) -> Any:
    return lambda scene: [bulk for bulk in scene.bulks if bulk.state in states]


class Bulkers(Upkeep, Operators):
    """Operators who also deal with jobs by the dozen."""

    scene: Bulks

    @act(lambda s: room_for_more(s) and s.idle() and not s.model.closed, weight=12, always=True)
    def a_job_dies(self) -> None:
        """More that may be dealt with by the dozen."""
        key = self.free_key()
        self.scene.enqueued("weave.job", key, ["note"], "north")
        self.scene.look()
        record, process = self.scene.roots["weave.job", key], self.scene.idle()[0]
        if self.scene.model.claimable(record):
            self.scene.claimed(process, record)
            self.scene.hop(process, Order("fail", "terminal"))
            self.scene.hop(process, Order())

    @act(lambda s: s.roots and len(s.bulks) < 3, weight=12, always=True)
    def drafts_an_operation(self) -> None:
        verb = self.one_of(["resume", "restart", "cancel", "resolve"], "verb")
        of = self.scene.model.records
        some = st.lists(st.sampled_from(of), min_size=1, max_size=min(5, len(of)), unique=True)
        records = self.chosen(some, "jobs")
        canary = self.chosen(st.sampled_from([0, 0, 1]), "canary")
        care = Care(canary=canary, stop_after=self.chosen(st.integers(1, 3), "stop after"))
        ids = [str(record.id) for record in records]
        made = draft(self.scene.workspace, verb, actor=SYSTEM, ids=ids, care=care)
        bulk = Bulk(made.pk, verb, records)
        bulk.outcomes = _outcomes(bulk)
        self.scene.bulks.append(bulk)
        with suppress(FiredoorError):  # nothing eligible, or a closed workspace
            self.done(service.start, bulk)

    @act(in_state("running", "paused"), weight=12, always=True)
    def engine_has_its_turn(self) -> None:
        """Its job is claimed if it may be: not behind its gate, not by two at once."""
        idle = self.scene.idle()
        bulk = self.one_of(in_state("running", "paused")(self.scene), "operation")
        engine = next(j for j in self.scene.engine_jobs() if j.pk == self.scene.engine_of(bulk))
        Job.objects.filter(pk=engine.pk, state=State.QUEUED).update(run_at=Now())
        if not idle:
            return
        process = self.one_of(idle, "worker")
        self.scene.engines[process] = bulk, self.scene.model.now
        self.keeps_pace(bulk)
        place = process.begins(partial(runner.execute, ENGINE, engine.pk))
        assert place == IDLE or (engine.state, bulk.state) == ("queued", "running")
        self.scene.engine_comes_to(process, place)

    @act(lambda s: s.engines, weight=25, always=True)
    def engine_goes_on(self) -> None:
        process = self.engine()
        for _ in range(self.chosen(st.sampled_from([1, 2, 1, 4]), "hops")):
            if process in self.scene.engines:
                self.keeps_pace(self.scene.engines[process][0])
                self.scene.engine_comes_to(process, process.goes_on(Order()))
                self.scene.look()

    @act(lambda s: s.engines, weight=2)
    def engine_fails(self) -> None:
        process = self.engine()
        self.scene.engine_comes_to(process, process.goes_on(Order("fail", "transient")))

    @act(lambda s: s.engines, weight=3)
    def engine_is_killed(self) -> None:
        self.scene.engine_dies(self.engine())

    @act(lambda s: s.engines, weight=3)
    def engine_is_not_heard_of(self) -> None:
        """It is reaped, and does not know."""
        for job in self.scene.engine_jobs():
            self.scene.lease_of(job.pk)
        self.sweep(reap_now=True)

    @act(lambda s: s.engines, weight=1)
    def heart_of_the_engine_beats(self) -> None:
        journal = self.engine().journal
        assert journal is not None
        with suppress(LeaseLost):
            journal.noted(moves.renew(journal.fence))

    @act(in_state("running", "paused"), weight=4)
    def pauses(self) -> None:
        self.change(service.pause, "running")

    @act(in_state("running", "paused"), weight=6, always=True)
    def lets_go_on(self) -> None:
        self.change(service.resume_operation, "paused")

    @act(in_state("running", "paused", "stopped", "finished"), weight=2)
    def stops(self) -> None:
        self.change(service.stop, "draft", "running", "paused")

    @act(lambda s: s.engine_jobs(), weight=1)
    def engine_cannot_be_cancelled(self) -> None:
        engine = self.one_of(self.scene.engine_jobs(), "engine")
        with pytest.raises(FiredoorError):
            cancel(engine.pk, actor=SYSTEM, reason=WHY)

    def change(self, verb: Any, *states: str) -> None:
        """Done from these states, refused in others; once it has returned, no item is under way."""
        bulk = self.one_of(self.scene.bulks, "operation")
        expected = nullcontext() if bulk.state in states else pytest.raises(FiredoorError)
        with expected:
            self.done(verb, bulk)

    def done(self, verb: Any, bulk: Bulk) -> None:
        verb(bulk.id, actor=SYSTEM, reason=WHY)

    def keeps_pace(self, bulk: Bulk) -> None:
        """Whatever its rate, it may do the next item now."""
        Operation.objects.filter(pk=bulk.id).update(paced_until=None)

    def engine(self) -> Process:
        process: Process = self.one_of(list(self.scene.engines), "engine's worker")
        return process
