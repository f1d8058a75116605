"""What is added to a job after its end: once, onto empty fields, and only where it belongs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import moves
from jobs.models import Job, Step
from jobs.models.ids import uuid7
from tests.integration.kernel.standing import DEAD, RUNNING, fence, made, stepped, values_of
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


def test_a_dead_letter_is_closed_once(shop: Workspace) -> None:
    job = made(shop, **DEAD)
    assert moves.resolve(job.pk, "paid by hand") is True
    first = values_of(job)
    assert first["resolution"] == "paid by hand"
    assert first["resolved_at"] >= job.created_at
    assert moves.resolve(job.pk, "another tale") is False
    assert values_of(job) == first
    assert (first["state"], first["cause"]) == ("dead", "terminal")


def observed(job: Job, observed: str = "happened") -> bool:
    return moves.observe(job.pk, name="s", observed=observed, output='{"id": 7}', actor="user:1")


def row(step: Step) -> dict[str, Any]:
    return {**Step.objects.filter(pk=step.pk).values().get()}


@pytest.mark.parametrize("what", ["happened", "did_not_happen"])
def test_what_was_observed_is_written_beside_what_was_recorded(shop: Workspace, what: str) -> None:
    job = made(shop, **DEAD)
    step = stepped(job)
    before = row(step)
    assert observed(job, what) is True
    after = row(step)
    assert after.pop("observed_at") >= job.created_at
    added = {"observed": what, "observed_output": {"id": 7}, "observed_by": "user:1"}
    del before["observed_at"]
    assert after == {**before, **added}


UNSTORABLE = {"state": "done", "output_error": "not JSON"}


@pytest.mark.parametrize(
    ("stands", "what", "is_written"),
    [
        ({"observed": "happened"}, "happened", False),
        ({"observed": "did_not_happen"}, "happened", False),
        ({"state": "not_done"}, "happened", False),
        ({"state": "done"}, "happened", False),
        ({"late_at": Now()}, "happened", False),
        ({"opens_at": Now() + timedelta(hours=1)}, "happened", False),
        ({"opens_at": Now() - timedelta(seconds=1)}, "happened", True),
        (UNSTORABLE, "happened", True),
        (UNSTORABLE, "did_not_happen", False),
        ({**UNSTORABLE, "observed": "happened"}, "happened", False),
        ({"state": "not_done", "output_error": "not JSON"}, "happened", False),
    ],
)
def test_only_what_is_open_or_was_not_stored_is_observed(
    shop: Workspace, *, stands: dict[str, Any], what: str, is_written: bool
) -> None:
    job = made(shop, **DEAD)
    step = stepped(job, **stands)
    before = row(step)
    assert observed(job, what) is is_written
    assert (row(step) != before) == is_written


# --- what a worker brought after its lease was lost ----------------------------------------------


def brought(job: Job) -> bool:
    return moves.keep_late_output(fence(job), name="s", output='{"late": 1}')


def test_late_output_is_kept_once_beside_the_intent_that_stays_as_it_is(shop: Workspace) -> None:
    job = made(shop, **RUNNING)
    step = stepped(job)
    before = row(step)
    assert brought(job) is True
    kept = row(step)
    assert kept.pop("late_at") >= job.created_at
    del before["late_at"]
    assert kept == {**before, "late_output": {"late": 1}}
    assert moves.keep_late_output(fence(job), name="s", output="2") is False
    assert row(step)["late_output"] == {"late": 1}


@pytest.mark.parametrize(
    "stands",
    [
        {"state": "done"},
        {"state": "not_done"},
        {"attempt": 1},
        {"late_at": Now() - timedelta(hours=1)},
    ],
)
def test_late_output_of_another_attempt_or_of_what_has_ended_is_nobodys(
    shop: Workspace, stands: dict[str, Any]
) -> None:
    job = made(shop, **RUNNING)
    step = stepped(job, **stands)
    before = row(step)
    assert brought(job) is False
    assert row(step) == before


def test_late_output_reaches_the_copies_of_its_intent_and_no_other_job(shop: Workspace) -> None:
    job, heir, stranger = (made(shop, key, **RUNNING) for key in ("a", "b", "c"))
    copy = stepped(heir, carried_from=job.pk)
    others = [stepped(heir, "t"), stepped(stranger), stepped(stranger, "t", carried_from=uuid7())]
    before = [row(each) for each in others]
    assert brought(job) is True
    assert row(copy)["late_output"] == {"late": 1}
    assert [row(each) for each in others] == before
