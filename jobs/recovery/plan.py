"""What a retry would do, step by step. Pure: page and service share it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobs.models import Job
from jobs.models import Step as StepRow
from jobs.registry import KindSpec
from jobs.states import Effect, Observation, StepState, Verb, Word
from jobs.steps import Step


class Carry(StrEnum):
    """How a step reaches a successor."""

    NOTHING = ""
    OUTPUT = "output"
    LATE = "late_output"
    OBSERVED = "observed_output"
    INTENT = "intent"


@dataclass(frozen=True)
class PlannedStep:
    """One step of a plan: what is recorded of it, what will become of it, and why."""

    name: str
    effect: str
    boundary: str
    recorded: str
    word: Word
    why: str
    carry: Carry = Carry.NOTHING


@dataclass(frozen=True)
class Check:
    """One thing looked at. ``level`` is pass, warn or block; ``code`` names what blocks."""

    level: str
    code: str
    sentence: str


@dataclass(frozen=True)
class Plan:
    """What a verb would do to a job now. ``cost`` is what the steps that run again cost before."""

    job_id: str
    verb: Verb
    steps: tuple[PlannedStep, ...]
    checks: tuple[Check, ...]
    cost: tuple[dict[str, Any], ...]
    digest: str

    @property
    def refusal(self) -> Check | None:
        """The first check that blocks, or None: the verb may be done."""
        return next((check for check in self.checks if check.level == "block"), None)

    @property
    def open_steps(self) -> tuple[PlannedStep, ...]:
        return tuple(s for s in self.steps if s.word in (Word.BLOCKED, Word.ASKS_FIRST))


def planned_steps(
    verb: Verb, spec: KindSpec, rows: Iterable[StepRow], open_names: frozenset[str]
) -> tuple[PlannedStep, ...]:
    """A word for every declared step and every stored one, in the order the kind declares."""
    stored = {row.name: row for row in rows}
    order = {step.name: index for index, step in enumerate(spec.steps)}
    bases = {name.split(":", 1)[0] for name in stored}
    unmet = [s.name for s in spec.steps if s.name not in stored and s.name not in bases]
    names = [*stored, *unmet]
    names.sort(key=lambda name: order.get(name.split(":", 1)[0], len(order)))
    word = _restarted if verb is Verb.RESTART else _resumed
    return tuple(
        word(name, spec.step_named(name), stored.get(name), is_open=name in open_names)
        for name in names
    )


def digest_of(job: Job, verb: Verb, spec: KindSpec | None, steps: Sequence[PlannedStep]) -> str:
    """A hash of everything a person agreed to: no times and no actor, so it ages only by change."""
    seen = [
        str(job.pk),
        verb.value,
        spec.version if spec else None,
        job.epoch,
        job.state,
        [[s.name, s.word.value] for s in steps],
    ]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def _resumed(
    name: str, step: Step[..., Any] | None, row: StepRow | None, *, is_open: bool
) -> PlannedStep:
    if row is None:
        return _planned(name, step, row, Word.RUNS, "no result of it is stored")
    if row.state == StepState.DONE:
        return _resumed_done(name, step, row)
    if row.observed == Observation.HAPPENED:
        return _planned(name, step, row, Word.KEPT, "observed: it happened", Carry.OBSERVED)
    if row.late_at is not None:  # a proof, also against somebody's "it did not happen"
        return _planned(
            name, step, row, Word.KEPT, "its worker brought the output late", Carry.LATE
        )
    if row.state == StepState.NOT_DONE or row.observed == Observation.DID_NOT_HAPPEN:
        return _planned(name, step, row, Word.RUNS, "it surely did not happen")
    if row.effect == Effect.KEYED and not is_open:
        return _planned(name, step, row, Word.RUNS, "sent again with the same key", Carry.INTENT)
    if step is not None and step.reconcile is not None:
        why = "it may have happened: the provider is asked before anything is sent"
        return _planned(name, step, row, Word.ASKS_FIRST, why, Carry.INTENT)
    why = "it may have happened, and nobody can be asked: look there, then reconcile"
    return _planned(name, step, row, Word.BLOCKED, why, Carry.INTENT)


def _resumed_done(name: str, step: Step[..., Any] | None, row: StepRow) -> PlannedStep:
    if step is not None and not step.carry:
        return _planned(name, step, row, Word.RUNS_AGAIN, "its output holds for one job only")
    if row.observed == Observation.HAPPENED:
        return _planned(
            name, step, row, Word.KEPT, "its output was recorded by hand", Carry.OBSERVED
        )
    if row.output_error:
        why = (
            f"it is done, but {row.output_error}; the retry stops here until its output is recorded"
        )
        return _planned(name, step, row, Word.KEPT, why, Carry.OUTPUT)
    return _planned(name, step, row, Word.KEPT, "its result is stored", Carry.OUTPUT)


def _restarted(
    name: str, step: Step[..., Any] | None, row: StepRow | None, *, is_open: bool
) -> PlannedStep:
    if is_open:
        why = "it may have happened: reconcile it first, a restart would do it again"
        return _planned(name, step, row, Word.BLOCKED, why)
    if row is not None and row.state == StepState.DONE:
        return _planned(name, step, row, Word.RUNS_AGAIN, "a restart is a new intent")
    if row is not None and row.state == StepState.STARTED:
        return _planned(name, step, row, Word.RUNS_AGAIN, "a restart sends it under a new key")
    return _planned(name, step, row, Word.RUNS, "not done before")


def _planned(
    name: str,
    step: Step[..., Any] | None,
    row: StepRow | None,
    word: Word,
    why: str,
    carry: Carry = Carry.NOTHING,
) -> PlannedStep:
    return PlannedStep(
        name=name,
        effect=row.effect if row else step.effect.value if step else "",
        boundary=row.boundary if row else step.boundary if step else "",
        recorded=row.state if row else "",
        word=word,
        why=why,
        carry=carry,
    )
