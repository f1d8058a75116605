"""What the record must say, in plain Python: the rules of the design once more, without SQL.

Independent of the kernel: nothing of ``jobs`` is used here. Times are absolute, by the scene's
clock; all durations are whole minutes, so that the moments that pass between two statements of
the real thing decide nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.integration.kernel.interleavings.outside import REMEMBERS, Clock
from tests.integration.kernel.interleavings.weave import (
    BACKOFF,
    BUDGETS,
    CAN_ASK,
    DEADLINE,
    EFFECTS,
    LEASE,
    LIMIT,
    LONGEST,
    Budget,
)

FINAL = ("succeeded", "dead", "cancelled")
ASK_AGAIN = 60.0  # while nothing ends a process that may still act
GRACE = 60.0  # after so long without a pass, upkeep gives leases one more term


@dataclass
class Checkpoint:
    """A step as it is recorded. ``sender`` is the job whose attempt wrote it."""

    effect: str
    state: str
    attempt: int
    sender: Record
    opens: float = 0.0
    output: object = None
    fault: bool = False
    late: bool = False
    late_output: object = None
    observed: str = ""
    observed_output: object = None

    def is_open(self, now: float) -> bool:
        """Whether nobody knows what became of it."""
        settled = self.state != "started" or self.observed or self.late
        return not settled and self.opens <= now


@dataclass(frozen=True)
class Ended:
    """An attempt that has a row of its own."""

    outcome: str
    worker: str
    kill_at: float


@dataclass(eq=False)
class Record:
    """A job as it must stand."""

    name: str
    kind: str
    steps: tuple[str, ...]
    account: str
    made_at: float
    epoch: int = 0
    mode: str = ""
    parent: Record | None = None
    id: uuid.UUID = field(default_factory=lambda: uuid.UUID(int=0))
    state: str = "queued"
    cause: str = ""
    run_at: float = 0.0
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    deferrals: int = 0
    worker: str = ""
    lease_until: float = 0.0
    kill_at: float = 0.0
    cancel: bool = False
    resolved: bool = False
    successor: Record | None = None
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    attempts: dict[int, Ended] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.name

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(self.name)

    @property
    def root(self) -> Record:
        return self if self.parent is None else self.parent.root

    @property
    def deadline(self) -> float:
        return self.made_at + DEADLINE

    @property
    def final(self) -> bool:
        return self.state in FINAL

    @property
    def budget(self) -> Budget:
        return BUDGETS[self.kind]

    def has_open(self, now: float) -> bool:
        return any(each.is_open(now) for each in self.checkpoints.values())


class Model:
    """All jobs of a scene, its gates, and what time and upkeep do to them."""

    def __init__(self, clock: Clock, *, inline: bool) -> None:
        self.clock = clock
        self.inline = inline
        self.lease = LIMIT + 60.0 if inline else LEASE
        self.records: list[Record] = []
        self.gates: dict[str, float] = {}
        self.gone: set[str] = set()
        self.swept_at: float | None = None
        self.closed = False

    @property
    def now(self) -> float:
        return self.clock.now

    def enqueued(self, name: str, kind: str, steps: tuple[str, ...], account: str) -> Record:
        record = Record(name, kind, steps, account, made_at=self.now, run_at=self.now)
        self.records.append(record)
        return record

    def newest(self, record: Record) -> Record:
        while record.successor is not None:
            record = record.successor
        return record

    # --- moves

    def gate_is_closed(self, account: str) -> bool:
        return self.gates.get(account, self.now) > self.now

    def close_gate(self, account: str, seconds: float) -> None:
        self.gates[account] = max(self.gates.get(account, 0.0), self.now + seconds)

    def claimable(self, record: Record) -> bool:
        due = record.run_at <= self.now < record.deadline
        return record.state == "queued" and due and not self.gate_is_closed(record.account)

    def claimed(self, record: Record, worker: str) -> None:
        record.state, record.worker = "running", worker
        record.attempt += 1
        record.lease_until = self.now + self.lease
        record.kill_at = self.now + LIMIT

    def ended(self, record: Record, state: str, cause: str = "") -> None:
        """Make a job final. What is open wins over everything."""
        doubt = record.has_open(self.now)
        record.state = "dead" if doubt else state
        record.cause = "uncertain" if doubt else cause

    def queued_again(self, record: Record, delay: float) -> None:
        """Back to the queue; unless somebody has asked for its end meanwhile."""
        if record.cancel:
            self.ended(record, "cancelled")
        else:
            record.state, record.run_at = "queued", self.now + delay

    def attempt_ended(self, record: Record, outcome: str) -> None:
        record.attempts[record.attempt] = Ended(outcome, record.worker, record.kill_at)

    def backoff(self, count: int) -> float:
        return float(min(LONGEST, BACKOFF * 2 ** (count - 1)))

    # --- upkeep

    def expired(self, record: Record) -> bool:
        late = record.lease_until < self.now or (self.inline and record.worker in self.gone)
        return record.state == "running" and late

    def overdue(self, record: Record) -> bool:
        return record.state == "queued" and record.deadline <= self.now

    def reap(self, record: Record) -> None:
        if not self.expired(record):
            return
        timed_out = record.kill_at < self.now and record.kill_at <= record.lease_until
        counts_as_failure = timed_out or record.budget.loss_is_failure
        delay = self.backoff(record.failures + record.losses + 1)
        if counts_as_failure:
            cause = self.spent(record.failures, record, delay, record.deadline - self.now)
        else:
            cause = "lost" if record.losses + 1 > record.budget.max_losses else ""
        record.failures += counts_as_failure
        record.losses += not timed_out
        self.attempt_ended(record, "timed_out" if timed_out else "lost")
        if cause and not record.cancel:
            self.ended(record, "dead", cause)
        else:
            self.queued_again(record, delay)

    def spent(self, failures: int, record: Record, delay: float, left: float) -> str:
        """Why one more failure is one too many, if it is."""
        if failures + 1 > record.budget.max_retries:
            return "exhausted"
        return "deadline" if delay >= left else ""

    def bury(self, record: Record) -> None:
        if self.overdue(record):
            self.ended(record, "dead", "deadline")

    def swept(self, *, reap_now: bool) -> None:
        """One pass. After a pause it gives every lease one more term before it reaps."""
        late = self.swept_at is None or self.now - self.swept_at > GRACE
        self.swept_at = self.now
        for record in self.records:
            if late and not reap_now and record.state == "running":
                record.lease_until = max(record.lease_until, self.now + LEASE)
            elif not (late and not reap_now):
                self.reap(record)
        for record in self.records:
            self.bury(record)

    def moments(self) -> Iterator[float]:
        """When something becomes possible that is not possible now."""
        yield from self.gates.values()
        for record in self.records:
            if record.state == "queued":
                yield record.run_at
            if record.state == "running":
                yield from (record.lease_until, record.kill_at)
            started = (c for c in record.checkpoints.values() if c.state == "started")
            yield from (each.opens for each in started)

    # --- who is over

    def seconds_until_over(self, checkpoint: Checkpoint, asking: str) -> float:
        """How long the attempt that sent an intent may still act, as far as ``asking`` can know.

        A worker does one thing at a time: what it asks about itself, it does no more.
        """
        ended = checkpoint.sender.attempts.get(checkpoint.attempt)
        if ended is None or ended.outcome not in ("lost", "timed_out") or ended.worker in self.gone:
            return 0.0
        if ended.worker == asking:
            return 0.0
        left = 0.0 if self.inline else ended.kill_at - self.now
        return left if left > 0 else ASK_AGAIN


def fresh_intent(name: str, attempt: int, sender: Record, now: float) -> Checkpoint:
    """An intent that is about to be sent for the first time, as far as anybody knows."""
    wait = REMEMBERS if EFFECTS[name] == "keyed" else 0.0
    return Checkpoint(EFFECTS[name], "started", attempt, sender, opens=now + wait)


def can_be_asked(name: str) -> bool:
    return name in CAN_ASK
