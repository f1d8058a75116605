"""An observer believes what is proven, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from provisioning.terraform.classify import Class, outcome
from provisioning.terraform.fate import Fate, Life
from provisioning.terraform.observe import Evidence, Verdict, decide
from provisioning.terraform.state import Movement
from provisioning.terraform.stream import Entry, Progress, Stream, Summary

DONE = Stream(
    tool="1.11.4",
    ledger=(Entry("a", "create", Progress.COMPLETED),),
    summary=Summary("apply", 1, 0, 0),
)
APPLIED = Evidence(
    fate=Fate(Life.ENDED, "it ended", 0),
    said=DONE,
    outcome=outcome(Class.OK, "applied"),
    group_empty=True,
    moved=Movement.MOVED,
)
REFUSED = Evidence(
    fate=Fate(Life.ENDED, "it ended", 1),
    said=Stream(tool="1.11.4"),
    outcome=outcome(Class.TERMINAL, "plan_unreadable"),
    group_empty=True,
    moved=Movement.SAME,
)


def verdict(evidence: Evidence) -> tuple[str, str]:
    seen, code, _ = decide(evidence)
    return seen.value, code


def test_a_recorded_success_is_applied_also_where_the_state_cannot_be_read() -> None:
    assert verdict(APPLIED) == ("applied", "applied")
    assert verdict(replace(APPLIED, moved=None)) == ("applied", "applied")


def test_what_a_successful_apply_left_running_does_not_undo_its_success() -> None:
    assert verdict(replace(APPLIED, group_empty=False)) == ("applied", "applied")


@pytest.mark.parametrize("moved", [Movement.SAME, Movement.BEHIND, Movement.OTHER])
def test_a_state_that_contradicts_the_success_needs_a_person(moved: Movement) -> None:
    assert verdict(replace(APPLIED, moved=moved)) == ("cannot_tell", "state_contradicts")


def test_an_apply_of_nothing_need_not_move_the_state() -> None:
    empty = replace(APPLIED, said=replace(DONE, ledger=()), moved=Movement.SAME)

    assert verdict(empty) == ("applied", "applied")


def test_the_final_summary_proves_success_when_the_exit_code_was_lost() -> None:
    lost = replace(
        APPLIED, fate=Fate(Life.LOST, "it is gone"), outcome=outcome(Class.UNCERTAIN, "lost")
    )

    assert verdict(lost) == ("applied", "applied")
    assert verdict(replace(lost, group_empty=None)) == ("cannot_tell", "lost")
    assert verdict(replace(lost, said=Stream())) == ("cannot_tell", "lost")


def test_a_refusal_with_nothing_left_and_an_unmoved_state_is_nothing() -> None:
    assert verdict(REFUSED) == ("nothing_happened", "plan_unreadable")


@pytest.mark.parametrize(
    ("empty", "moved", "code"),
    [
        (False, Movement.SAME, "not_alone"),
        (None, Movement.SAME, "not_alone"),
        (True, Movement.MOVED, "state_moved"),
        (True, Movement.BEHIND, "state_moved"),
        (True, Movement.OTHER, "state_moved"),
        (True, None, "state_moved"),
    ],
)
def test_a_refusal_alone_proves_nothing(
    empty: bool | None, moved: Movement | None, code: str
) -> None:
    assert verdict(replace(REFUSED, group_empty=empty, moved=moved)) == ("cannot_tell", code)


@pytest.mark.parametrize("life", [Life.RUNNING, Life.ORPHANED])
def test_what_lives_may_still_act(life: Life) -> None:
    assert verdict(replace(REFUSED, fate=Fate(life, "alive"))) == ("cannot_tell", "still_running")


def test_what_never_started_did_nothing_whatever_the_state_says() -> None:
    never = replace(REFUSED, fate=Fate(Life.NEVER, "sealed"), moved=Movement.MOVED)

    assert verdict(never) == ("nothing_happened", "never_started")


def test_nothing_happened_is_said_in_two_cases_only() -> None:
    lives = [Fate(life, "x", 1 if life is Life.ENDED else None) for life in Life]
    outcomes = [outcome(kind, "lost") for kind in Class]
    moves = [None, *Movement]
    said = [Stream(), DONE]
    for fate, judged, empty, moved, stream in product(
        lives, outcomes, (True, False, None), moves, said
    ):
        seen, _, reason = decide(Evidence(fate, stream, judged, empty, moved))

        proven = fate.life is Life.NEVER or (
            fate.life is Life.ENDED
            and judged.nothing_happened
            and empty is True
            and moved is Movement.SAME
        )
        assert (seen is Verdict.NOTHING_HAPPENED) == proven
        assert reason[0].isupper()
