"""One attempt as the model expects it: what the worker knows, does and writes, pause by pause."""

from __future__ import annotations

from collections.abc import Generator
from copy import copy
from dataclasses import dataclass, field

from tests.integration.kernel.interleavings.model import (
    Checkpoint,
    Model,
    Record,
    can_be_asked,
    fresh_intent,
)
from tests.integration.kernel.interleavings.outside import Intent, Provider
from tests.integration.kernel.interleavings.process import CLOSING, Order, Place, Process
from tests.integration.kernel.interleavings.weave import (
    DEFERRAL,
    EFFECTS,
    OWN_DELAY,
    RETRY_AFTER,
)

Course = Generator[Place, Order, None]
DEAD = frozenset({"terminal", "denied", "bug"})
NOTHING_HAPPENED = frozenset({"refused", "limited", "denied"})
LATER = {"slow": OWN_DELAY}


@dataclass(frozen=True)
class Ending:
    """How an attempt closes: succeed, retry, defer or end (dead with a cause, or cancelled)."""

    how: str
    cause: str = ""
    outcome: str = "failed"
    delay: float = 0.0
    failure: bool = False


class Fails(Exception):
    """What the handler raises."""

    def __init__(self, error: str, *, swallow: bool) -> None:
        super().__init__(error)
        self.error = error
        self.swallow = swallow


class Stops(Exception):
    """What ends the attempt from outside its handler."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending = ending


class Lost(Exception):
    """The job is somebody else's, or final: nothing may be written."""


def _deferred(delay: float) -> Stops:
    return Stops(Ending("defer", delay=delay))


@dataclass(eq=False)
class Execution:
    """An attempt, and what its worker knows of the job: what it read once, and has written."""

    model: Model
    world: Provider
    process: Process
    record: Record
    attempt: int = 0
    worker: str = ""
    kill_at: float = 0.0
    failures: int = 0
    known: dict[str, Checkpoint] = field(default_factory=dict)
    cancel_seen: bool = False
    deadline_seen: bool = False
    lost: bool = False

    def __post_init__(self) -> None:
        record = self.record
        self.attempt, self.worker = record.attempt, record.worker
        self.kill_at, self.failures = record.kill_at, record.failures
        self.known = {name: copy(each) for name, each in record.checkpoints.items()}

    @property
    def mine(self) -> bool:
        """Whether the fence holds: attempt number and worker, while it runs."""
        held = (self.record.attempt, self.record.worker) == (self.attempt, self.worker)
        return held and self.record.state == "running"

    def intent(self, name: str) -> Intent:
        return Intent(self.record.root.id, self.record.epoch, name)

    def heartbeat(self) -> None:
        self.lost = self.lost or not self.mine
        if self.mine:
            self.fenced()

    def fenced(self) -> None:
        """A write under the fence: it extends the lease, and tells what was asked meanwhile."""
        if not self.mine:
            self.lost = True
            raise Lost
        self.record.lease_until = self.model.now + self.model.lease
        self.cancel_seen = self.record.cancel
        self.deadline_seen = self.record.deadline <= self.model.now

    # --- from pause to pause

    def course(self) -> Course:
        """The places where the worker waits; sent the order with which it goes on."""
        try:
            for name in self.record.steps:
                try:
                    yield from self.step(name)
                except Fails as failure:
                    if not failure.swallow:
                        raise
            ending = Ending("succeed")
        except Lost:
            return
        except Fails as failure:
            if failure.error == "limited":
                yield CLOSING  # its gate, whoever owns the job by then
                self.model.close_gate(self.record.account, self.delay("limited"))
            ending = self.after(failure.error)
        except Stops as stop:
            ending = stop.ending
        yield CLOSING
        if self.mine:
            self.close(ending)

    def step(self, name: str) -> Course:
        known = self.known.get(name)
        if known is not None and known.state == "done":
            if known.fault:
                raise Stops(Ending("end", "terminal"))
            return
        order = yield Place("step", name)
        if order.do == "defer":
            raise _deferred(DEFERRAL)
        if order.do == "fail" and EFFECTS[name] != "local":
            raise Fails(order.error, swallow=order.swallow)
        self.boundary()
        if EFFECTS[name] == "local":
            self.local(name, order)
        else:
            yield from self.outward(name, known, order)

    def boundary(self) -> None:
        if self.lost:
            raise Lost
        if self.cancel_seen:
            raise Stops(Ending("end", outcome="cancelled"))
        if self.deadline_seen:
            raise Stops(Ending("end", "deadline"))
        if self.process.stopping:
            raise _deferred(0.0)

    def local(self, name: str, order: Order) -> None:
        lease = self.record.lease_until
        self.fenced()
        if order.do == "fail":
            self.record.lease_until = lease  # all of it is undone
            raise Fails(order.error, swallow=order.swallow)
        self.done(name, order.output)

    def outward(self, name: str, known: Checkpoint | None, order: Order) -> Course:
        begins = EFFECTS[name] in ("keyed", "once")
        begun = known is not None and known.state == "started"
        if known is not None and begun and self.must_be_settled(name, known):
            if self.happened(name, known, order):
                self.store(name, self.settled_output(name, known))
                return
            begun = False
        if begins and not begun:
            self.begin(name)
        order = yield Place("inside", name)
        if order.do in ("defer", "exit"):
            raise _deferred(DEFERRAL if order.do == "defer" else 0.0)
        if order.do == "fail":
            if begins and not begun and order.error in NOTHING_HAPPENED:
                self.deny(name)
            raise Fails(order.error, swallow=order.swallow)
        self.store(name, order.output, fault=order.do == "unstorable")

    # --- what is known of an intent without an outcome

    def must_be_settled(self, name: str, known: Checkpoint) -> bool:
        unknown = EFFECTS[name] == "once" or known.opens <= self.model.now
        return known.late or unknown

    def happened(self, name: str, known: Checkpoint, order: Order) -> bool:
        if known.late:
            return True
        if not can_be_asked(name) or order.answer == "unsure":
            raise Stops(Ending("end", "uncertain", outcome="uncertain"))
        if order.answer == "broken":
            raise Fails("transient", swallow=order.swallow)
        if self.world.effects[self.intent(name)]:
            return True
        left = self.model.seconds_until_over(known, self.worker)
        if left > 0:
            raise _deferred(left)
        return False

    def settled_output(self, name: str, known: Checkpoint) -> object:
        return known.late_output if known.late else self.world.output(self.intent(name))

    # --- writes

    def begin(self, name: str) -> None:
        self.fenced()
        fresh = fresh_intent(name, self.attempt, self.record, self.model.now)
        self.written(name, fresh)

    def deny(self, name: str) -> None:
        self.fenced()
        self.record.checkpoints[name].state = "not_done"
        self.known[name] = copy(self.record.checkpoints[name])

    def store(self, name: str, output: object, *, fault: bool = False) -> None:
        try:
            self.fenced()
        except Lost:
            if EFFECTS[name] in ("keyed", "once") and not fault:
                self.keep_late(name, output)
            raise
        self.done(name, None if fault else output, fault=fault)
        if fault:
            raise Stops(Ending("end", "terminal"))

    def done(self, name: str, output: object, *, fault: bool = False) -> None:
        told = Checkpoint(EFFECTS[name], "done", self.attempt, self.record, fault=fault)
        told.output = output
        self.written(name, told)

    def written(self, name: str, told: Checkpoint) -> None:
        before = self.record.checkpoints.get(name)
        if before is not None:
            told.late, told.late_output = before.late, before.late_output
            told.observed, told.observed_output = before.observed, before.observed_output
        self.record.checkpoints[name] = told
        self.known[name] = copy(told)

    def keep_late(self, name: str, output: object) -> None:
        """Evidence for the intent that this attempt sent, wherever it was carried to."""
        for record in self.model.records:
            each = record.checkpoints.get(name)
            if each is None or (each.attempt, each.state, each.late) != (
                self.attempt,
                "started",
                False,
            ):
                continue
            if self.record in (record, each.sender):
                each.late, each.late_output = True, output

    # --- the end

    def after(self, error: str) -> Ending:
        """What becomes of a job whose handler raised."""
        record, model, delay = self.record, self.model, self.delay(error)
        spent = -1 if error == "limited" else self.failures  # waiting behind a gate uses no budget
        cause = model.spent(spent, record, delay, record.deadline - model.now)
        if error in DEAD:
            cause = "terminal"
        if not cause and self.open_without_anybody_to_ask():
            cause = "uncertain"
        if error == "limited" and not cause:
            return Ending("defer", delay=delay)
        return Ending("end" if cause else "retry", cause, delay=delay, failure=True)

    def delay(self, error: str) -> float:
        """The backoff, its own wait, and never less than the provider's word."""
        wait = LATER.get(error, self.model.backoff(self.failures + 1))
        return max(wait, RETRY_AFTER) if error == "limited" else wait

    def open_without_anybody_to_ask(self) -> bool:
        now = self.model.now
        return any(each.is_open(now) for name, each in self.known.items() if not can_be_asked(name))

    def close(self, ending: Ending) -> None:
        record, model = self.record, self.model
        record.failures += ending.failure
        if ending.how == "defer":
            record.deferrals += 1
            model.queued_again(record, ending.delay)
            return
        if ending.how == "retry":
            model.queued_again(record, ending.delay)
        elif ending.how == "succeed":
            model.ended(record, "succeeded")
        else:
            model.ended(record, "dead" if ending.cause else "cancelled", ending.cause)
        outcome = "succeeded" if ending.how == "succeed" else ending.outcome
        model.attempt_ended(record, "uncertain" if record.cause == "uncertain" else outcome)
