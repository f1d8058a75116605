"""Retries end: by their count, by losses, by the deadline, and by the provider's own word."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now

from jobs import runner
from jobs.kinds import Kind, RateLimited, Run, Terminal, Transient, job_kind, step
from jobs.models import Job
from jobs.testing import at_step, attempt, crash_at, drain
from tests.drills.faults import ProviderError
from tests.drills.kinds import repeatable
from tests.drills.ledger import effects
from tests.integration.kernel.acting import about, ended, outcomes, resumed, tried, waiting
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def failing(error: Exception, **policy: Any) -> Kind[..., Any]:
    """A kind that always fails in one way."""

    @job_kind("scene.failing", retry_jitter=False, **policy)
    def fails(run: Run) -> None:
        raise error

    return fails


def delays(job: Job) -> list[float | None]:
    return list(job.attempts.order_by("number").values_list("delay", flat=True))


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_job_is_tried_once_and_then_as_often_as_its_kind_retries(
    acme: Workspace, retries: int
) -> None:
    job = ended(failing(Transient("later"), max_retries=retries).s(), acme)
    assert (job.state, job.cause) == ("dead", "exhausted")
    assert (job.attempt, job.failures) == (retries + 1, retries + 1)
    assert outcomes(job)[-1] == ("failed", f"transient; {retries} retries are used up")
    assert {row.classification for row in job.attempts.exclude(number=retries + 1)} <= {"retry"}
    assert job.attempts.get(number=retries + 1).classification == "dead"


def test_waits_double_up_to_the_kinds_own_cap(acme: Workspace) -> None:
    job = ended(
        failing(Transient("later"), max_retries=5, retry_backoff=2, retry_backoff_max=9).s(), acme
    )
    assert delays(job) == [2, 4, 8, 9, 9, None]


def test_jitter_only_lengthens(acme: Workspace) -> None:
    @job_kind("scene.jittery", max_retries=8, retry_backoff=1, retry_backoff_max=1)
    def jittery(run: Run) -> None:
        raise Transient("later")

    waits = delays(ended(jittery.s(), acme))[:-1]
    assert all(wait is not None and 1 <= wait <= 1.5 for wait in waits)
    assert len(set(waits)) > 1


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        (Transient("later", delay=42), 42),
        (Transient("later", delay=0), 1),
        (RateLimited("slow down", retry_after=42), 42),
        (RateLimited("slow down", retry_after=0.2), 1),
        (ProviderError(503, {"Retry-After": "42"}), 42),
        (ProviderError(429, {"Retry-After": "0"}), 1),
        (ProviderError(503), 1),
    ],
)
def test_the_next_try_waits_as_long_as_somebody_asked_for(
    acme: Workspace, error: Exception, wait: float
) -> None:
    job = tried(failing(error).s(), acme)
    row = job.attempts.get()
    assert row.delay == wait
    assert about(wait, job.run_at - row.ended_at)
    assert (job.state, job.wait_reason, job.failures) == ("queued", "retry", 1)


@pytest.mark.parametrize(
    "error",
    [RateLimited("tomorrow", retry_after=90_000), ProviderError(503, {"Retry-After": "90000"})],
)
def test_a_wait_past_the_deadline_ends_the_job_at_once_and_says_so(
    acme: Workspace, error: Exception
) -> None:
    job = tried(failing(error).s(), acme)
    assert (job.state, job.cause, job.attempt) == ("dead", "deadline", 1)
    assert "the wait of 90000 s would pass the deadline" in outcomes(job)[0][1]


def test_the_time_an_attempt_took_counts_against_the_deadline(acme: Workspace) -> None:
    """What was left when it began is not what is left when it fails."""

    @job_kind("scene.slow", deadline=timedelta(hours=1), retry_jitter=False)
    def slow(run: Run) -> None:
        run._started -= 3590
        raise Transient("later", delay=30)

    job = waiting(slow.s(), acme)
    Job.objects.filter(pk=job.pk).update(deadline_at=Now() + timedelta(hours=1))
    attempt(job)
    assert (job.state, job.cause) == ("dead", "deadline")


def test_a_job_without_a_deadline_waits_as_long_as_it_is_told(acme: Workspace) -> None:
    job = tried(failing(RateLimited("next year", retry_after=4e7), deadline=None).s(), acme)
    assert (job.state, job.attempts.get().delay) == ("queued", 4e7)


def test_the_deadline_stops_new_work_at_the_next_boundary(acme: Workspace, ledger: str) -> None:
    job = waiting(repeatable.s(ledger=ledger), acme)

    def it_passes(_: object) -> None:
        Job.objects.filter(pk=job.pk).update(deadline_at=Now())

    with at_step("first", "during", it_passes):
        attempt(job)
    assert (job.state, job.cause) == ("dead", "deadline")
    assert outcomes(job) == [("failed", "the deadline passed at a step boundary")]
    assert effects(ledger) == {"first": 1}


def test_a_handler_that_returns_has_succeeded_late_or_not(acme: Workspace, ledger: str) -> None:
    job = waiting(repeatable.s(ledger=ledger), acme)

    def it_passes(_: object) -> None:
        Job.objects.filter(pk=job.pk).update(deadline_at=Now())

    with at_step("second", "during", it_passes):
        attempt(job)
    assert job.state == "succeeded"


def test_a_retry_has_budgets_and_a_deadline_of_its_own(acme: Workspace) -> None:
    job = ended(failing(Transient("later"), max_retries=1).s(), acme)
    Job.objects.filter(pk=job.pk).update(deadline_at=F("created_at"))
    again = resumed(job)
    assert (again.cause, again.attempt, again.failures) == ("exhausted", 2, 2)
    assert again.deadline_at is not None
    assert again.deadline_at > again.created_at + timedelta(hours=23)


def test_failures_and_losses_are_counted_apart(acme: Workspace, ledger: str) -> None:
    intended = repeatable.s(ledger=ledger, fault="transient", once_file=f"{ledger}.once")
    job = waiting(intended, acme)
    attempt(job)
    for _ in range(3):
        with crash_at("first", "before"):
            drain()
    drain()
    job.refresh_from_db()
    assert (job.state, job.failures, job.losses, job.attempt) == ("succeeded", 1, 3, 5)


def test_terminal_needs_no_budget(acme: Workspace) -> None:
    job = ended(failing(Terminal("never"), max_retries=9).s(), acme)
    assert (job.cause, job.attempt) == ("terminal", 1)


def test_a_kinds_own_lists_decide_what_is_tried_again(acme: Workspace) -> None:
    @step("odd")
    def odd() -> None:
        raise KeyError("id")

    @job_kind("scene.own_lists", steps=(odd,), autoretry_for=(KeyError,), max_retries=2)
    def own_lists(run: Run) -> None:
        run(odd)

    job = ended(own_lists.s(), acme)
    assert (job.cause, job.attempt) == ("exhausted", 3)
    assert outcomes(job)[0] == ("failed", "unclassified, listed in autoretry_for")


def test_what_is_queued_again_is_not_claimed_before_its_moment(acme: Workspace) -> None:
    job = tried(failing(Transient("later", delay=60)).s(), acme)
    assert not runner.execute(job.kind, job.pk)
