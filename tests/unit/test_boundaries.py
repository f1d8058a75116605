"""How far a job reached, by what is recorded of its steps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.models import Step as StepRow
from jobs.recovery.boundaries import Crossing, Reached, crossings, reached
from tests.drills.kinds import keyed, once

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def row(**told: Any) -> StepRow:
    return StepRow(**{"name": "charge", "effect": "once", "boundary": "provider", **told})


@pytest.mark.parametrize(
    ("recorded", "is_open", "answer"),
    [
        ({"state": "done"}, False, "yes"),
        ({"state": "not_done"}, False, "no"),
        ({"state": "started"}, True, "maybe"),
        ({"state": "started", "effect": "keyed"}, False, "maybe"),
        ({"state": "started", "effect": "keyed"}, True, "maybe"),
        ({"state": "started", "observed": "happened"}, False, "yes"),
        ({"state": "started", "observed": "did_not_happen"}, False, "no"),
        ({"state": "started", "late_at": NOW}, False, "yes"),
        ({"state": "started", "late_at": NOW, "observed": "did_not_happen"}, False, "yes"),
    ],
    ids=str,
)
def test_a_step_that_was_begun(recorded: dict[str, Any], is_open: bool, answer: str) -> None:
    (found,) = crossings((), [row(**recorded)], frozenset({"charge"} if is_open else ()))

    assert (found.step, found.boundary, found.reached.value) == ("charge", "provider", answer)
    assert found.why


def test_steps_that_were_never_begun_reached_nobody() -> None:
    found = crossings([*once.spec.steps, *keyed.spec.steps], [], frozenset())

    assert [(c.step, c.reached) for c in found] == [
        ("charge", Reached.NO),
        ("reserve", Reached.NO),
    ]


def test_a_step_of_a_loop_stands_for_its_declaration() -> None:
    found = crossings(once.spec.steps, [row(name="charge:2", state="done")], frozenset())

    assert [c.step for c in found] == ["charge:2"]


def test_repeatable_and_local_steps_say_nothing_of_anybody() -> None:
    silent = [row(effect="repeatable", state="done"), row(effect="local", state="done")]

    assert crossings((), silent, frozenset()) == ()


def test_one_step_that_surely_did_is_enough_for_its_boundary() -> None:
    def crossed(boundary: str, answer: Reached) -> Crossing:
        return Crossing("s", boundary, "once", answer, "")

    found = reached(
        [
            crossed("provider", Reached.YES),
            crossed("provider", Reached.MAYBE),
            crossed("agent", Reached.NO),
            crossed("agent", Reached.MAYBE),
        ]
    )

    assert found == {"provider": "yes", "agent": "maybe", "repository": "no"}
