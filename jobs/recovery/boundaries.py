"""Whose world a job reached, as far as its record tells. Pure.

*Hole:* only `keyed` and `once` steps say whom they call; a repeatable step may call anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobs.models import Step as StepRow
from jobs.states import Effect, Observation, StepState
from jobs.steps import Step

BOUNDARIES = ("provider", "agent", "repository")
OUTSIDE = (Effect.KEYED, Effect.ONCE)


class Reached(StrEnum):
    """Whether something took effect outside."""

    YES = "yes"
    MAYBE = "maybe"
    NO = "no"


@dataclass(frozen=True)
class Crossing:
    """One step that calls outside, and what became of its call."""

    step: str
    boundary: str
    effect: str
    reached: Reached
    why: str


def crossings(
    declared: Sequence[Step[..., Any]], rows: Iterable[StepRow], open_names: frozenset[str]
) -> tuple[Crossing, ...]:
    """Every step that calls outside, recorded ones first, then those that were never begun."""
    found = [_recorded(row, row.name in open_names) for row in rows if row.effect in OUTSIDE]
    met = {crossing.step.split(":", 1)[0] for crossing in found}
    never = "it was never begun"
    found += [
        Crossing(step.name, step.boundary, step.effect.value, Reached.NO, never)
        for step in declared
        if step.effect in OUTSIDE and step.name not in met
    ]
    return tuple(found)


def reached(found: Iterable[Crossing]) -> dict[str, Reached]:
    """How far the job came, for each boundary: one step that surely did is enough."""
    furthest = dict.fromkeys(BOUNDARIES, Reached.NO)
    order = (Reached.NO, Reached.MAYBE, Reached.YES)
    for crossing in found:
        known = furthest.get(crossing.boundary, Reached.NO)
        furthest[crossing.boundary] = max(known, crossing.reached, key=order.index)
    return furthest


def _recorded(row: StepRow, is_open: bool) -> Crossing:  # noqa: FBT001  read from the record
    answer, why = _fate(row, is_open=is_open)
    return Crossing(row.name, row.boundary, row.effect, answer, why)


def _fate(row: StepRow, *, is_open: bool) -> tuple[Reached, str]:
    if row.state == StepState.DONE:
        return Reached.YES, "it is done"
    if row.late_at is not None:
        return Reached.YES, "its worker brought the output late"
    if row.observed == Observation.HAPPENED:
        return Reached.YES, "somebody looked: it happened"
    if row.observed == Observation.DID_NOT_HAPPEN:
        return Reached.NO, "somebody looked: it did not happen"
    if row.state == StepState.NOT_DONE:
        return Reached.NO, "it surely did not happen"
    if row.effect == Effect.KEYED and not is_open:
        return Reached.MAYBE, "it was started; sent again with the same key it happens once"
    return Reached.MAYBE, "it was started, and no outcome is recorded"
