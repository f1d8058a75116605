"""What an alert says about each way a job can die."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alerts.cause import Death, cause_key, death_in, severity, summary, title
from alerts.models import Severity
from jobs.states import Cause

DEATH = Death(
    kind="payments.charge",
    cause=Cause.EXHAUSTED,
    fingerprint="f00d",
    step="register",
    attempt=4,
    error_class="registry.client.Down",
    message="registry answered 503",
)
BARE = replace(DEATH, fingerprint="", step="", error_class="", message="")


@pytest.mark.parametrize(
    ("cause", "expected", "bare"),
    [
        (
            Cause.UNCERTAIN,
            "payments.charge may or may not have carried out step 'register'",
            "payments.charge may or may not have carried out a step",
        ),
        (
            Cause.TERMINAL,
            "payments.charge failed at step 'register': Down",
            "payments.charge failed",
        ),
        (
            Cause.EXHAUSTED,
            "payments.charge used up its retries at step 'register': Down",
            "payments.charge used up its retries",
        ),
        (
            Cause.DEADLINE,
            "payments.charge passed its deadline at step 'register': Down",
            "payments.charge passed its deadline",
        ),
        (
            Cause.LOST,
            "payments.charge lost its workers too often at step 'register'",
            "payments.charge lost its workers too often",
        ),
        (Cause.UNSTARTABLE, "payments.charge cannot start", "payments.charge cannot start"),
    ],
)
def test_the_title_says_what_is_wrong_in_words(cause: Cause, expected: str, bare: str) -> None:
    assert title(replace(DEATH, cause=cause)) == expected
    assert title(replace(BARE, cause=cause)) == bare


def test_only_an_uncertain_effect_is_critical() -> None:
    assert {cause for cause in Cause if severity(replace(DEATH, cause=cause)) != "error"} == {
        Cause.UNCERTAIN
    }
    assert severity(replace(DEATH, cause=Cause.UNCERTAIN)) is Severity.CRITICAL


@pytest.mark.parametrize("cause", Cause)
def test_the_summary_says_what_to_do_next(cause: Cause) -> None:
    told = summary(replace(DEATH, cause=cause))
    assert "retry" in told
    assert "{" not in told


def test_the_summary_of_an_uncertain_step_names_it_and_asks_to_reconcile() -> None:
    told = summary(replace(DEATH, cause=Cause.UNCERTAIN))
    assert told.startswith("step 'register' was started and no outcome is recorded.")
    assert "reconcile" in told


def test_braces_in_an_authors_step_name_are_only_a_name() -> None:
    assert "step '{x}'" in summary(replace(DEATH, cause=Cause.UNCERTAIN, step="{x}"))


def test_a_cause_is_the_same_for_other_jobs_attempts_and_messages() -> None:
    other = replace(DEATH, attempt=1, message="registry answered 502")
    assert cause_key(other) == cause_key(DEATH)


@pytest.mark.parametrize(
    "other",
    [
        replace(DEATH, kind="payments.refund"),
        replace(DEATH, cause=Cause.UNCERTAIN),
        replace(DEATH, fingerprint="beef"),
    ],
)
def test_another_kind_cause_or_fingerprint_is_another_cause(other: Death) -> None:
    assert cause_key(other) != cause_key(DEATH)


def test_the_longest_names_fit_the_columns() -> None:
    long = replace(
        DEATH, kind="k" * 100, fingerprint="f" * 32, step="s" * 120, error_class="e" * 200
    )
    for cause in Cause:
        assert len(cause_key(replace(long, cause=cause))) <= 250
        assert len(title(replace(long, cause=cause))) <= 300


def test_a_death_without_an_attempt_is_read_as_one() -> None:
    data = {
        "kind": "payments.charge",
        "cause": "unstartable",
        "attempt": 0,
        "fingerprint": "",
        "step": None,
        "error_class": "",
        "message": "",
    }
    assert death_in(data) == replace(BARE, cause=Cause.UNSTARTABLE, attempt=0)
