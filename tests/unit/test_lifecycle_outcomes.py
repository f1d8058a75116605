"""What an apply that did not succeed means for the job: a proof of "no", or an open intent."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs.outcomes import Again, EffectSeen, classify
from provisioning.lifecycle.outcomes import ApplyInDoubt, failure_of, nothing_applied
from provisioning.terraform.apply import Applied
from provisioning.terraform.ask import ToolFailed
from provisioning.terraform.classify import Class, outcome
from provisioning.terraform.errors import AlreadyStarted, PlanTampered, TerraformError
from provisioning.terraform.stream import Entry, Progress

NO, MAYBE = EffectSeen.NO, EffectSeen.MAYBE
RETRY, DEAD = Again.RETRY, Again.DEAD


def meaning(error: Exception) -> tuple[Again, EffectSeen]:
    told = classify(error, now=datetime.now(UTC))
    return told.again, told.effect


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [
        (Class.TRANSIENT, "state_locked", (RETRY, NO)),
        (Class.TERMINAL, "plan_stale", (DEAD, NO)),
        (Class.PARTIAL, "apply_partial", (DEAD, MAYBE)),
        (Class.UNCERTAIN, "crashed", (DEAD, MAYBE)),
        (Class.UNCERTAIN, "state_not_persisted", (DEAD, MAYBE)),
        (Class.UNCERTAIN, "still_running", (RETRY, MAYBE)),
    ],
)
def test_an_outcome_answers_both_questions(
    kind: Class, code: str, expected: tuple[Again, EffectSeen]
) -> None:
    error = failure_of(Applied(outcome(kind, code)))

    assert meaning(error) == expected
    assert str(error).endswith(f"[{code}]")


def test_a_refusal_proves_nothing_while_something_of_it_is_alive() -> None:
    applied = Applied(outcome(Class.TERMINAL, "plan_stale"), left_behind=True)

    assert meaning(failure_of(applied)) == (DEAD, MAYBE)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ToolFailed(outcome(Class.TRANSIENT, "backend_unavailable")), (RETRY, NO)),
        (ToolFailed(outcome(Class.TERMINAL, "config_invalid")), (DEAD, NO)),
        (PlanTampered("Nothing was applied."), (DEAD, NO)),
    ],
    ids=["transient", "terminal", "tampered"],
)
def test_what_is_raised_instead_of_an_apply_proves_that_none_was_made(
    raised: TerraformError, expected: tuple[Again, EffectSeen]
) -> None:
    with pytest.raises(Exception, match=rf"\[{raised.code}\]") as translated, nothing_applied():
        raise raised

    assert meaning(translated.value) == expected


def test_a_folder_that_was_used_before_leaves_the_question_open(tmp_path: Path) -> None:
    with pytest.raises(ApplyInDoubt) as translated, nothing_applied():
        raise AlreadyStarted(tmp_path / "apply")

    assert meaning(translated.value) == (DEAD, MAYBE)


def test_the_ledger_is_told_in_words_and_bounded() -> None:
    entries = [Entry(f"thing.r{n}", "create", Progress.COMPLETED) for n in range(30)]
    entries.append(Entry("thing.last", "create", Progress.ERRORED))

    told = str(failure_of(Applied(outcome(Class.PARTIAL, "apply_partial"), tuple(entries))))

    assert "completed: thing.r0, thing.r1" in told
    assert "and 10 more; errored: thing.last." in told
    assert "did_not_happen" in told
