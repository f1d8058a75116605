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
from collections.abc import Callable
from typing import Any

from django.db import transaction

from jobs.journal import Checkpoint, Journal
from jobs.outcomes import EffectSeen
from jobs.states import Effect, StepState
from jobs.steps import CannotTell, DidNotHappen, Happened, Intent, Step
from jobs.stops import Defer, OutputUnusable, Uncertain

EffectOf = Callable[[Exception], EffectSeen]


def perform(
    journal: Journal,
    step: Step[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    effect_of: EffectOf,
) -> object:
    """The output of ``step``: the recorded one, or that of running it now."""
    recorded = journal.checkpoints.get(step.name)
    if recorded is not None and recorded.state is StepState.DONE:
        if recorded.output_error:
            raise OutputUnusable(step.name, recorded.output_error)
        return recorded.output
    journal.boundary()
    if step.effect is Effect.LOCAL:
        return _local(journal, step, args, kwargs)
    if not step.begins:
        return journal.store(step, step.function(*args, **kwargs))
    return _begun(journal, step, args, kwargs, effect_of)


def key_of(journal: Journal, step: Step[..., Any]) -> str:
    """The key that means "this very step": the same in every attempt and every resume.

    A restart is a new intent and gets another one, through the epoch.
    """
    claim = journal.claim
    return hashlib.sha256(f"{claim.root_id}:{claim.epoch}:{step.name}".encode()).hexdigest()


def _local(
    journal: Journal, step: Step[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> object:
    # The fence comes first: job before owner's rows is the lock order of the whole house.
    with transaction.atomic():
        journal.hold()
        return journal.store_within(step, step.function(*args, **kwargs))


def _begun(
    journal: Journal,
    step: Step[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    effect_of: EffectOf,
) -> object:
    key = key_of(journal, step)
    recorded = journal.checkpoints.get(step.name)
    begun = recorded is not None and recorded.state is StepState.STARTED
    if recorded is not None and begun and _must_be_settled(journal, step, recorded):
        answer = _settled(journal, step, recorded, key, args, kwargs)
        if isinstance(answer, Happened):
            return journal.store(step, answer.output)
        begun = False
    if not begun:
        journal.begin(step)
    sent = (key, *args) if step.effect is Effect.KEYED else args
    try:
        output = step.function(*sent, **kwargs)
    except Exception as error:
        if effect_of(error) is EffectSeen.NO:
            journal.deny(step)
        raise
    return journal.store(step, output)


def _must_be_settled(journal: Journal, step: Step[..., Any], recorded: Checkpoint) -> bool:
    """Whether the truth about an intent must be known before anything is sent again."""
    return recorded.late or step.effect is Effect.ONCE or journal.is_open(recorded)


def _settled(
    journal: Journal,
    step: Step[..., Any],
    recorded: Checkpoint,
    key: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Happened | DidNotHappen:
    """What became of an intent, or raise: Uncertain, Defer, or what ``reconcile`` raised."""
    if recorded.late:
        return Happened(recorded.late_output)
    if step.reconcile is None or recorded.intent_at is None:
        raise Uncertain(
            step.name, "it was started, no outcome is recorded, and nobody can be asked"
        )
    answer = step.reconcile(Intent(key, recorded.intent_at, recorded.attempt), *args, **kwargs)
    if isinstance(answer, Happened):
        return answer
    if isinstance(answer, CannotTell):
        raise Uncertain(step.name, f"the provider cannot tell: {answer.reason}")
    if not isinstance(answer, DidNotHappen):
        raise TypeError(f"reconcile of step {step.name!r} returned {type(answer).__name__}")
    left = journal.seconds_until_over(recorded)
    if left > 0:
        raise Defer(left, f"step {step.name}: the attempt that started it may still be running")
    return answer
