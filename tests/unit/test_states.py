"""The closed sets and the one table of moves."""

from __future__ import annotations

import re
from itertools import product

import pytest

from jobs.states import (
    FINAL,
    MOVES,
    RETRYABLE,
    AttemptOutcome,
    Cause,
    Effect,
    Observation,
    State,
    StepState,
    Verb,
    WaitReason,
    Word,
    allows,
    page,
)

# Written out a second time on purpose: a slip in the table must not pass by being copied.
ALLOWED = {
    ("queued", "running"),
    ("queued", "dead"),
    ("queued", "cancelled"),
    ("running", "queued"),
    ("running", "succeeded"),
    ("running", "dead"),
    ("running", "cancelled"),
}


@pytest.mark.parametrize(("source", "target"), list(product(State, State)))
def test_a_job_moves_only_along_the_table(source: State, target: State) -> None:
    assert allows(source, target) is ((source.value, target.value) in ALLOWED)


def test_three_states_are_final() -> None:
    assert {"succeeded", "dead", "cancelled"} == FINAL


def test_only_what_did_not_succeed_is_retried() -> None:
    assert {"dead", "cancelled"} == RETRYABLE


def test_an_unknown_state_is_a_mistake_and_no_refusal() -> None:
    with pytest.raises(ValueError, match="lost"):
        allows("lost", "queued")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (Cause, "uncertain terminal exhausted deadline lost unstartable"),
        (AttemptOutcome, "succeeded failed timed_out lost cancelled uncertain"),
        (StepState, "started done not_done"),
        (Effect, "repeatable local keyed once"),
        (
            WaitReason,
            "scheduled retry throttled lock share interrupted deferred unstartable",
        ),
        (Observation, "happened did_not_happen"),
        (Verb, "resume restart cancel resolve reconcile"),
    ],
)
def test_the_closed_sets_are_as_agreed(words: type, expected: str) -> None:
    assert [word.value for word in words] == expected.split()  # type: ignore[attr-defined]


def test_a_preflight_has_five_words() -> None:
    assert [w.value for w in Word] == [
        "kept",
        "asks first",
        "runs",
        "runs again",
        "blocked until reconciled",
    ]


def test_the_diagram_shows_every_move_and_no_other() -> None:
    drawn = re.findall(r"^    (\w+) --> (\w+): (\w+)$", page(), re.MULTILINE)
    assert {(m.source.value, m.target.value, m.name) for m in MOVES} == set(drawn)
    assert re.findall(r"^    (\w+) --> \[\*\]$", page(), re.MULTILINE) == [
        "succeeded",
        "dead",
        "cancelled",
    ]


def test_the_table_below_the_diagram_says_when() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| ")]
    assert set(rows) >= {f"| {m.name} | {m.source} | {m.target} | {m.when} |" for m in MOVES}
