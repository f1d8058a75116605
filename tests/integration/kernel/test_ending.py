"""What each end of an attempt writes into the job's row, and what an open intent makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Value
from django.db.models.functions import Now

from jobs import moves
from jobs.fence import AttemptRecord, Ended
from jobs.models import Attempt, Job
from jobs.states import AttemptOutcome, Cause, State, WaitReason
from tests.integration.kernel.standing import (
    QUEUED,
    RECORD,
    RUNNING,
    fence,
    made,
    stepped,
    values_of,
)
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

HOUR = timedelta(hours=1)
LOST = replace(RECORD, outcome=AttemptOutcome.LOST)
WITHOUT_WORDS = AttemptRecord(
    AttemptOutcome.SUCCEEDED, cost='{"amount": 1}', provider_request_id="p"
)
ASKED: dict[str, Any] = {"cancel_requested_at": Now() - HOUR}
SPENT: dict[str, Any] = {"failures": 3, "losses": 5, "deferrals": 7, "publishes": 9}
STOOD: dict[str, Any] = {"wait_reason": "scheduled", "wait_since": Now() - 2 * HOUR}

End = Callable[[Job], Ended | None]
# What a job that stands so becomes, where nothing is open.
ENDS: dict[str, tuple[dict[str, Any], End, Ended]] = {
    "succeed": (
        RUNNING,
        lambda job: moves.succeed(fence(job), result="1", record=RECORD),
        Ended(State.SUCCEEDED, ""),
    ),
    "succeed silently": (
        RUNNING,
        lambda job: moves.succeed(fence(job), result="1", record=WITHOUT_WORDS),
        Ended(State.SUCCEEDED, ""),
    ),
    "end": (
        RUNNING,
        lambda job: moves.end(fence(job), RECORD, cause=Cause.EXHAUSTED),
        Ended(State.DEAD, "exhausted"),
    ),
    "end a cancelled one": (
        RUNNING,
        lambda job: moves.end(fence(job), RECORD, cause=None),
        Ended(State.CANCELLED, ""),
    ),
    "retry_later where it was asked to stop": (
        {**RUNNING, **ASKED},
        lambda job: moves.retry_later(fence(job), RECORD, delay=1.0),
        Ended(State.CANCELLED, ""),
    ),
    "defer where it was asked to stop": (
        {**RUNNING, **ASKED},
        lambda job: moves.defer(fence(job), delay=1.0, wait=WaitReason.LOCK),
        Ended(State.CANCELLED, ""),
    ),
    "bury": (QUEUED, lambda job: moves.bury(job.pk, Cause.DEADLINE), Ended(State.DEAD, "deadline")),
    "cancel_queued": (
        QUEUED,
        lambda job: moves.cancel_queued(job.pk),
        Ended(State.CANCELLED, ""),
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_says_what_became_of_the_job_and_when(shop: Workspace, name: str) -> None:
    values, end, becomes = ENDS[name]
    job = made(shop, **values)
    assert end(job) == becomes
    ended = values_of(job)
    assert (ended["state"], ended["cause"]) == (becomes.state.value, becomes.cause)
    assert ended["finished_at"] - job.created_at < timedelta(minutes=1)
    assert ended["finished_at"] >= job.created_at
    assert ended["lease_until"] is None
    assert ended["result"] == (1 if name.startswith("succeed") else None)


# An intent whose outcome is not recorded, and every reason why it is none.
OPEN: dict[str, tuple[dict[str, Any], bool]] = {
    "once": ({}, True),
    "keyed, and its provider has forgotten": ({"opens_at": Now() - HOUR}, True),
    "keyed, and its provider remembers": ({"opens_at": Now() + HOUR}, False),
    "done": ({"state": "done"}, False),
    "surely not done": ({"state": "not_done"}, False),
    "observed": ({"observed": "happened"}, False),
    "brought late": ({"late_at": Now()}, False),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("step", OPEN)
def test_no_end_but_uncertain_with_an_open_intent(shop: Workspace, name: str, step: str) -> None:
    told, is_open = OPEN[step]
    values, end, becomes = ENDS[name]
    job = made(shop, **values)
    stepped(made(shop, "another"))  # of another job: that is its own doubt
    stepped(job, **told)
    expected = Ended(State.DEAD, "uncertain") if is_open else becomes
    assert end(job) == expected
    ended = values_of(job)
    assert (ended["state"], ended["cause"]) == (expected.state.value, expected.cause)
    assert ended["finished_at"] is not None


OUTCOMES: list[tuple[str, bool, str]] = [
    *(("succeed", False, "succeeded"), ("succeed", True, "uncertain")),
    *(("succeed silently", False, "succeeded"), ("succeed silently", True, "uncertain")),
    *(("end", False, "failed"), ("end", True, "uncertain")),
    *(("end a cancelled one", False, "failed"), ("end a cancelled one", True, "uncertain")),
    ("retry_later where it was asked to stop", False, "failed"),
    ("retry_later where it was asked to stop", True, "uncertain"),
]


@pytest.mark.parametrize(("name", "doubtful", "outcome"), OUTCOMES)
def test_the_attempt_says_that_its_outcome_is_open(
    shop: Workspace, name: str, *, doubtful: bool, outcome: str
) -> None:
    values, end, _ = ENDS[name]
    job = made(shop, **values)
    if doubtful:
        stepped(job)
    assert end(job)
    assert Attempt.objects.get(job=job).outcome == outcome


@pytest.mark.parametrize("doubtful", [False, True])
def test_who_reaps_leaves_lost_what_is_lost(shop: Workspace, *, doubtful: bool) -> None:
    job = made(shop, **RUNNING)
    if doubtful:
        stepped(job)
    assert moves.end(fence(job), LOST, cause=Cause.LOST, own=False)
    assert Attempt.objects.get(job=job).outcome == "lost"


def test_a_success_of_which_there_is_nothing_to_say_keeps_what_it_cost(shop: Workspace) -> None:
    job = made(shop, **RUNNING)
    assert moves.succeed(fence(job), result="1", record=WITHOUT_WORDS)
    kept = Attempt.objects.get(job=job)
    assert (kept.cost, kept.provider_request_id, kept.delay) == ({"amount": 1}, "p", None)
    assert [getattr(kept, word) for word in AttemptRecord.WORDS] == [""] * 7
    assert (kept.number, kept.worker, kept.started_at, kept.kill_at) == (
        job.attempt,
        job.worker,
        job.started_at,
        job.kill_at,
    )
    assert kept.ended_at > kept.started_at


def test_a_deferral_leaves_no_attempt(shop: Workspace) -> None:
    job = made(shop, **RUNNING)
    assert moves.defer(fence(job), delay=1.0, wait=WaitReason.LOCK)
    assert not Attempt.objects.exists()


# --- budgets -------------------------------------------------------------------------------------

COUNTS: list[tuple[End, dict[str, int]]] = [
    (lambda job: moves.end(fence(job), RECORD, cause=Cause.LOST), {}),
    (lambda job: moves.end(fence(job), RECORD, cause=Cause.LOST, failure=True), {"failures": 4}),
    (lambda job: moves.end(fence(job), RECORD, cause=Cause.LOST, loss=True), {"losses": 6}),
    (lambda job: moves.retry_later(fence(job), RECORD, delay=1.0), {}),
    (lambda job: moves.retry_later(fence(job), RECORD, delay=1.0, failure=True), {"failures": 4}),
    (lambda job: moves.retry_later(fence(job), RECORD, delay=1.0, loss=True), {"losses": 6}),
    (lambda job: moves.defer(fence(job), delay=1.0, wait=WaitReason.LOCK), {"deferrals": 8}),
]


@pytest.mark.parametrize(("end", "counted"), COUNTS, ids=range(len(COUNTS)))
def test_what_was_spent_is_counted_and_nothing_else(
    shop: Workspace, end: End, counted: dict[str, int]
) -> None:
    job = made(shop, **RUNNING, **SPENT)
    assert end(job)
    budgets = ("failures", "losses", "deferrals")
    now = values_of(job)
    assert {name: now[name] for name in budgets} == {
        **{name: SPENT[name] for name in budgets},
        **counted,
    }


# --- waiting for the next attempt ----------------------------------------------------------------

LATER: dict[str, End] = {
    "retry": lambda job: moves.retry_later(fence(job), RECORD, delay=90.0),
    "lock": lambda job: moves.defer(fence(job), delay=90.0, wait=WaitReason.LOCK),
    "throttled": lambda job: moves.defer(fence(job), delay=90.0, wait=WaitReason.THROTTLED),
    "unstartable": lambda job: moves.defer(fence(job), delay=90.0, wait=WaitReason.UNSTARTABLE),
}


@pytest.mark.parametrize("reason", LATER)
def test_a_job_that_waits_says_for_what_since_when_and_until_when(
    shop: Workspace, reason: str
) -> None:
    job = made(shop, **RUNNING, **SPENT, **STOOD)
    stepped(job)  # its next attempt asks about it: an open intent ends nothing here
    assert LATER[reason](job) == Ended(State.QUEUED, "")
    now = values_of(job)
    assert (now["state"], now["cause"], now["finished_at"]) == ("queued", "", None)
    assert (now["lease_until"], now["publishes"]) == (None, 0)
    assert now["wait_reason"] == reason
    assert now["wait_since"] >= job.created_at
    assert now["run_at"] == now["wake_at"] == now["wait_since"] + timedelta(seconds=90)


def test_an_attempt_that_is_retried_says_after_what_wait(shop: Workspace) -> None:
    job = made(shop, **RUNNING)
    assert moves.retry_later(fence(job), RECORD, delay=90.0)
    kept = Attempt.objects.get(job=job)
    assert (kept.delay, kept.outcome) == (90.0, "failed")


@pytest.mark.parametrize(
    ("stood", "since", "reason", "is_kept"),
    [
        ("unstartable", Now() - HOUR, "unstartable", True),
        ("unstartable", Value(None), "unstartable", False),  # an older release kept no clock
        ("unstartable", Now() - HOUR, "retry", False),
        ("unstartable", Now() - HOUR, "lock", False),
        ("retry", Now() - HOUR, "unstartable", False),
        ("lock", Now() - HOUR, "lock", False),
    ],
)
def test_only_what_cannot_start_counts_from_the_first_time(
    shop: Workspace, *, stood: str, since: Any, reason: str, is_kept: bool
) -> None:
    job = made(shop, **RUNNING, wait_reason=stood, wait_since=since)
    assert LATER[reason](job)
    now = values_of(job)["wait_since"]
    assert (now == job.wait_since) == is_kept
    assert is_kept or now >= job.created_at


# --- queued jobs, and the wish to stop -----------------------------------------------------------


@pytest.mark.parametrize("asked", [Value(None), Now() - HOUR])
def test_burying_is_no_wish_of_anybody(shop: Workspace, asked: Any) -> None:
    job = made(shop, **QUEUED, cancel_requested_at=asked)
    assert moves.bury(job.pk, Cause.UNSTARTABLE) == Ended(State.DEAD, "unstartable")
    assert values_of(job)["cancel_requested_at"] == job.cancel_requested_at


def test_cancelling_is_one(shop: Workspace) -> None:
    job = made(shop, **QUEUED)
    assert moves.cancel_queued(job.pk)
    now = values_of(job)
    assert now["cancel_requested_at"] == now["finished_at"]


def test_a_running_job_is_asked_to_stop_once(shop: Workspace) -> None:
    job = made(shop, **RUNNING)
    assert moves.ask_cancel(job.pk) is True
    first = values_of(job)
    assert first["cancel_requested_at"] >= job.created_at
    assert moves.ask_cancel(job.pk) is False
    assert values_of(job) == first
    assert first["state"] == "running"


@pytest.mark.parametrize("end", [moves.cancel_queued, lambda pk: moves.bury(pk, Cause.DEADLINE)])
def test_what_is_not_queued_is_not_ended_so(shop: Workspace, end: Any) -> None:
    assert end(made(shop, **RUNNING).pk) is None
