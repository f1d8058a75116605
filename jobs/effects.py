"""How a step of each effect is run and recorded, so that finished work is never done twice.

========== ============================ ====================================================
effect     order of writes              a crash in between
========== ============================ ====================================================
repeatable function, checkpoint         runs again
local      [fence, function, checkpoint] nothing happened: one transaction
keyed      intent, function, checkpoint sent again with the same key, while it is remembered
once       intent, function, checkpoint ``reconcile`` is asked, else the job ends uncertain
========== ============================ ====================================================

*Hole:* a worker that is paused, not dead, may act after its lease is gone. Its writes are void,
but what it sends to a provider is not; only a provider that takes our key closes this.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from jobs import transactions
from jobs.journal import Checkpoint, Journal
from jobs.outcomes import EffectSeen, Transient
from jobs.states import Effect, StepState
from jobs.steps import CannotTell, DidNotHappen, Happened, Intent, Step
from jobs.stops import Defer, OutputUnusable, Uncertain

EffectOf = Callable[[Exception], EffectSeen]


@dataclass(frozen=True)
class Call:
    """One ``run(step, …)``: what is called, with what, and where it is recorded."""

    journal: Journal
    step: Step[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    effect_of: EffectOf

    @property
    def key(self) -> str:
        """The key that means "this very step": the same in every attempt and every resume.

        A restart is a new intent and gets another one, through the epoch.
        """
        claim = self.journal.claim
        return step_key(claim.root_id, claim.epoch, self.step.name)

    def function(self) -> object:
        """Do it: the author's function, which gets the key first if the step is keyed."""
        sent = (self.key, *self.args) if self.step.effect is Effect.KEYED else self.args
        return self.step.function(*sent, **self.kwargs)


def step_key(root_id: uuid.UUID, epoch: int, name: str) -> str:
    """By what a provider knows a step of a chain, since its last restart."""
    return hashlib.sha256(f"{root_id}:{epoch}:{name}".encode()).hexdigest()


def perform(call: Call) -> object:
    """The output of a step: the recorded one, or that of running it now."""
    journal, step = call.journal, call.step
    recorded = journal.checkpoints.get(step.name)
    if recorded is not None and recorded.state is StepState.DONE:
        if recorded.output_error:
            raise OutputUnusable(step.name, recorded.output_error)
        return recorded.output
    journal.boundary()
    if step.begins:
        return _begun(call, recorded)
    if recorded is not None and recorded.state is StepState.STARTED:
        return _begun_before(call, recorded)
    if step.effect is Effect.LOCAL:
        return _local(call)
    return journal.store(step, _called(call))


def _called(call: Call) -> object:
    """What the function returns, on a connection that is free for the record of it."""
    try:
        output = _returned(call)
    except BaseException:
        transactions.roll_back_leftover()
        raise
    if transactions.roll_back_leftover():
        raise transactions.left_by(f"step {call.step.name!r}")
    return output


def _returned(call: Call) -> object:
    """What the function returns, in the process that called it."""
    try:
        return call.function()
    finally:
        call.journal.end_if_forked()


def _begun_before(call: Call, recorded: Checkpoint) -> object:
    """A step that older code declared ``once`` or ``keyed``, and began: its row says what it is.

    As it is declared now, nobody can be asked about it: only a late output settles it.
    """
    if recorded.late:
        return call.journal.store(call.step, recorded.late_output)
    why = f"it was started as another than {call.step.effect.value}, no outcome is recorded"
    raise Uncertain(call.step.name, f"{why}, nobody can be asked")


def _local(call: Call) -> object:
    # The fence comes first: job before owner's rows is the lock order of the whole house.
    journal, step = call.journal, call.step
    stored: list[str] = []
    outputs: list[object] = []
    with transaction.atomic():
        journal.hold()
        # Not before the commit, which may refuse, and before whatever the function hangs on it.
        transaction.on_commit(lambda: outputs.append(journal.remember(step, stored[0])))
        stored.append(journal.store_within(step, _returned(call)))
    if not outputs or transactions.is_open():
        raise transactions.left_by(f"step {step.name!r}")
    return outputs[0]


def _begun(call: Call, recorded: Checkpoint | None) -> object:
    journal, step = call.journal, call.step
    begun = recorded is not None and recorded.state is StepState.STARTED
    if recorded is not None and begun and _must_be_settled(call, recorded):
        answer = _settled(call, recorded)
        if isinstance(answer, Happened):
            return journal.store(step, answer.output)
        begun = False
    if not begun:
        journal.begin(step)
        # Again: a fork that shares the connection may have opened one on it since.
        transactions.refuse(f"step {step.name!r}")
    try:
        output = _called(call)
    except Exception as error:
        # Of a key that was sent before, this "no" tells nothing about the time before.
        if not begun and call.effect_of(error) is EffectSeen.NO:
            journal.deny(step)
        raise
    return journal.store(step, output)


def _must_be_settled(call: Call, recorded: Checkpoint) -> bool:
    """Whether the truth about an intent must be known before anything is sent again."""
    # Open says the row, which knows what the step was when it was begun.
    return recorded.late or call.step.effect is Effect.ONCE or call.journal.is_open(recorded)


def _settled(call: Call, recorded: Checkpoint) -> Happened | DidNotHappen:
    """What became of an intent, or raise: Uncertain, Defer, or what ``reconcile`` raised."""
    step = call.step
    if recorded.late:
        return Happened(recorded.late_output)
    if step.reconcile is None or recorded.intent_at is None:
        raise Uncertain(step.name, "it was started, no outcome is recorded, nobody can be asked")
    if call.journal.is_own(recorded):
        # Not at once: a provider that lags would deny what it has just done.
        raise Transient(
            f"step {step.name} was started in this very attempt, and how that ended is not known; "
            "it is asked about in the next attempt"
        )
    intent = Intent(call.key, recorded.intent_at, recorded.attempt)
    answer = step.reconcile(intent, *call.args, **call.kwargs)
    call.journal.end_if_forked()
    transactions.roll_back_leftover()  # it only asks
    if isinstance(answer, Happened):
        return answer
    if isinstance(answer, CannotTell):
        raise Uncertain(step.name, f"the provider cannot tell: {answer.reason}")
    if not isinstance(answer, DidNotHappen):
        raise TypeError(f"reconcile of step {step.name!r} returned {type(answer).__name__}")
    left = call.journal.seconds_until_over(recorded)
    if left is None:
        raise Uncertain(
            step.name,
            "the provider denies it, but the process that started it cannot be seen from here "
            "and nothing ends it at its time limit: it may still act",
        )
    if left > 0:
        raise Defer(left, f"step {step.name}: the attempt that started it may still be running")
    return answer
