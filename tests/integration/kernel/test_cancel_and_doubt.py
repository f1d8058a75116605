"""Cancelling; and that no job becomes final with an open intent except as dead(uncertain)."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import runner, shutdown
from jobs.errors import ParamsInvalid
from jobs.kinds import Defer, RateLimited, Run, Terminal, Transient, job_kind, step
from jobs.models import Event, Job
from jobs.recovery.cancel import cancel
from jobs.testing import at_step, attempt, crash_at, drain, leave_for_dead
from tests.drills.kinds import first, once, reconciled, repeatable
from tests.drills.ledger import effects, happened
from tests.integration.kernel.acting import outcomes, reaping, states, told, waiting
from workspaces import closing
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def stop(job: Job) -> Job:
    return cancel(job.pk, actor=SYSTEM, reason="no longer wanted")


def in_doubt(acme: Workspace, ledger: str) -> Job:
    """A queued job whose worker died in its `once` step, after the effect."""
    job = waiting(once.s(ledger=ledger), acme)
    with crash_at("charge", "during"):
        drain()
    job.refresh_from_db()
    assert (job.state, states(job)) == ("queued", {"charge": "started"})
    return job


@pytest.fixture
def stopping() -> Any:
    yield shutdown.ask
    shutdown.forget()


# --- cancelling ----------------------------------------------------------------------------------


def test_a_queued_job_is_cancelled_at_once(acme: Workspace, ledger: str) -> None:
    job = stop(waiting(repeatable.s(ledger=ledger), acme))
    assert (job.state, job.cause, job.attempt) == ("cancelled", "", 0)
    assert job.finished_at is not None
    assert told(job) == ["job.cancelled"]
    drain()
    assert effects(ledger) == {}


def test_a_running_job_stops_at_its_next_boundary(acme: Workspace, ledger: str) -> None:
    job = waiting(repeatable.s(ledger=ledger), acme)
    asked: list[str] = []
    with at_step("first", "during", lambda _: asked.append(stop(job).state)):
        attempt(job)
    assert (asked, job.state) == (["running"], "cancelled")
    assert outcomes(job) == [("cancelled", "cancelled at a step boundary")]
    assert effects(ledger) == {"first": 1}
    assert states(job) == {"first": "done"}


def test_asking_twice_is_asking_once(acme: Workspace, ledger: str) -> None:
    job = waiting(repeatable.s(ledger=ledger), acme)
    moments: list[object] = []

    def twice(_: object) -> None:
        moments.extend(stop(job).cancel_requested_at for _ in range(2))

    with at_step("first", "during", twice):
        attempt(job)
    assert job.state == "cancelled"
    assert moments[0] == moments[1]


def test_a_call_that_is_under_way_when_the_last_step_ends_has_succeeded(
    acme: Workspace, ledger: str
) -> None:
    job = waiting(repeatable.s(ledger=ledger), acme)
    with at_step("second", "during", lambda _: stop(job)):
        attempt(job)
    assert job.state == "succeeded"


def test_a_cancelled_job_that_waits_for_its_retry_does_not_run_again(
    acme: Workspace, ledger: str
) -> None:
    job = waiting(repeatable.s(ledger=ledger, fault="transient"), acme)
    attempt(job)
    stop(job)
    job.refresh_from_db()
    assert (job.state, len(outcomes(job))) == ("cancelled", 1)


@pytest.mark.parametrize("ends", ["fails", "defers", "is throttled", "stops", "is reaped"])
def test_a_running_job_that_was_cancelled_never_waits_for_a_next_attempt(
    acme: Workspace, ledger: str, stopping: Any, ends: str
) -> None:
    """Nobody could claim it, and it would wait for its deadline."""
    endings: dict[str, Any] = {
        "fails": Transient("no answer"),
        "defers": Defer(60, "later"),
        "is throttled": RateLimited("later", retry_after=60),
    }

    @job_kind("scene.asked", steps=(first,), throttle="scene")
    def asked(run: Run, *, ledger: str) -> None:
        run(first, ledger, "none", "")
        stop(Job.objects.get(pk=run.job_id))
        if ends in endings:
            raise endings[ends]
        if ends == "stops":
            stopping()
        if ends == "is reaped":
            leave_for_dead(run.job_id)
        run.check()

    job = attempt(waiting(asked.s(ledger=ledger), acme))
    assert (job.state, job.cause, job.lease_until) == ("cancelled", "", None)
    assert job.finished_at is not None
    assert told(job) == ["job.cancelled"]


def test_a_cancelled_job_whose_params_are_of_tomorrow_does_not_wait_either(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancel is asked for between the claim and the refusal of the params."""
    job = waiting(repeatable.s(ledger="none"), acme)

    def refused(*_: object) -> None:
        stop(job)
        raise ParamsInvalid("of tomorrow")

    monkeypatch.setattr(runner, "decode", refused)
    assert attempt(job).state == "cancelled"
    assert told(job) == ["job.cancelled"]


def test_over_a_cancel_of_a_running_job_that_would_wait(acme: Workspace, ledger: str) -> None:
    """Its intent is open, somebody could be asked about it, and nobody will."""
    job = waiting(reconciled.s(ledger=ledger, fault="reset"), acme)
    with at_step("charge_found", "started", lambda _: stop(job)):
        attempt(job)
    assert (job.state, job.cause) == ("dead", "uncertain")
    assert [row.outcome for row in job.attempts.all()] == ["uncertain"]
    assert told(job) == ["job.uncertain"]


# --- doubt wins ----------------------------------------------------------------------------------


def ends_in_doubt(job: Job, *, attempts: int) -> None:
    job.refresh_from_db()
    assert (job.state, job.cause) == ("dead", "uncertain")
    assert job.finished_at is not None
    events = Event.objects.filter(subject=str(job.pk))
    assert [event.type for event in events] == ["job.uncertain"]
    assert events.get().data["step"] == "charge"
    assert job.attempts.count() == attempts


def test_over_a_cancel_of_a_queued_job(acme: Workspace, ledger: str) -> None:
    job = in_doubt(acme, ledger)
    stop(job)
    ends_in_doubt(job, attempts=1)


def test_over_the_closing_of_its_workspace(acme: Workspace, ledger: str) -> None:
    job = in_doubt(acme, ledger)
    closing.close(acme.pk, actor=SYSTEM, reason="they left")
    ends_in_doubt(job, attempts=1)


def test_over_a_passed_deadline(acme: Workspace, ledger: str) -> None:
    job = in_doubt(acme, ledger)
    Job.objects.filter(pk=job.pk).update(deadline_at=Now())
    assert reaping().buried == 1
    ends_in_doubt(job, attempts=1)


def test_over_a_kind_that_cannot_start(acme: Workspace, ledger: str) -> None:
    job = in_doubt(acme, ledger)
    Job.objects.filter(pk=job.pk).update(
        kind="drills.of_tomorrow", wait_reason="unstartable", wait_since="2000-01-01T00:00:00Z"
    )
    assert reaping().buried == 1
    ends_in_doubt(job, attempts=1)


def test_over_a_spent_budget_of_losses(acme: Workspace, ledger: str) -> None:
    job = waiting(once.s(ledger=ledger), acme)
    Job.objects.filter(pk=job.pk).update(losses=99)
    with crash_at("charge", "during"):
        drain()
    ends_in_doubt(job, attempts=1)
    assert outcomes(job) == [("lost", "worker lost; 3 losses are used up")]


def test_over_a_cancel_of_a_job_whose_worker_died(acme: Workspace, ledger: str) -> None:
    job = waiting(once.s(ledger=ledger), acme)

    def asked_to_stop(_: object) -> None:
        stop(job)
        leave_for_dead(job)

    with at_step("charge", "during", asked_to_stop):
        attempt(job)
    job.refresh_from_db()
    row = job.attempts.get()
    assert (job.state, job.cause) == ("dead", "uncertain")
    assert (row.outcome, row.step) == ("lost", "charge")


@pytest.mark.parametrize("after", ["returns", "fails", "cancelled", "late"])
def test_over_everything_that_ends_a_run(acme: Workspace, ledger: str, after: str) -> None:
    """The handler swallows the failure of its `once` step, and then something else ends it."""

    @step.once("charge")
    def charge(ledger: str) -> None:
        happened(ledger, "charge")
        raise TimeoutError

    @step("next")
    def then() -> None: ...

    @job_kind("scene.swallows", steps=(charge, then))
    def swallows(run: Run, *, ledger: str) -> None:
        try:
            run(charge, ledger)
        except TimeoutError:
            pass
        if after == "fails":
            raise Terminal("of its own")
        if after == "cancelled":
            stop(Job.objects.get(pk=run.job_id))
        if after == "late":
            Job.objects.filter(pk=run.job_id).update(deadline_at=Now())
        run.progress(0.5)
        run(then)

    job = waiting(swallows.s(ledger=ledger), acme)
    attempt(job)
    assert (job.state, job.cause) == ("dead", "uncertain")
    assert outcomes(job)[0][0] == "uncertain"
    assert told(job) == ["job.uncertain"]
    assert effects(ledger) == {"charge": 1}


def test_a_question_that_is_still_to_be_asked_is_no_doubt_yet(acme: Workspace, ledger: str) -> None:
    job = waiting(reconciled.s(ledger=ledger), acme)
    with crash_at("charge_found", "during"):
        drain()
    job.refresh_from_db()
    assert job.state == "queued"
    drain()
    job.refresh_from_db()
    assert job.state == "succeeded"


# --- a worker that stops -------------------------------------------------------------------------


def test_a_stopping_worker_gives_its_job_back_at_the_next_boundary(
    acme: Workspace, ledger: str, stopping: Any
) -> None:
    job = waiting(repeatable.s(ledger=ledger), acme)
    with at_step("first", "during", lambda _: stopping()):
        attempt(job)
    back = (job.state, job.wait_reason, job.deferrals, job.attempts.count())
    shutdown.forget()
    drain()
    job.refresh_from_db()
    assert back == ("queued", "interrupted", 1, 0)
    assert (job.state, job.failures, job.losses) == ("succeeded", 0, 0)
    assert effects(ledger) == {"first": 1, "second": 1}


@pytest.mark.parametrize("asked", [True, False], ids=["cold stop", "hard time limit"])
def test_a_system_exit_is_a_stop_only_if_one_was_asked_for(
    acme: Workspace, ledger: str, stopping: Any, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hard time limit arrives in the same way, and then this process dies: the lease tells."""
    job = waiting(repeatable.s(ledger=ledger), acme)

    def struck(_: object) -> None:
        monkeypatch.setattr(shutdown, "struck", lambda: True)
        if asked:
            stopping()
        raise SystemExit

    Job.objects.filter(pk=job.pk).update(run_at=Now())
    with at_step("first", "during", struck), pytest.raises(SystemExit):
        runner.execute(job.kind, job.pk)
    job.refresh_from_db()
    assert (job.state, job.wait_reason) == (
        ("queued", "interrupted") if asked else ("running", "scheduled")
    )


def test_a_stop_in_a_once_step_leaves_the_intent_for_the_next_attempt(
    acme: Workspace, ledger: str, stopping: Any
) -> None:
    job = waiting(reconciled.s(ledger=ledger), acme)

    def struck(_: object) -> None:
        stopping()
        raise SystemExit

    Job.objects.filter(pk=job.pk).update(run_at=Now())
    with at_step("charge_found", "during", struck), pytest.raises(SystemExit):
        runner.execute(job.kind, job.pk)
    shutdown.forget()
    drain()
    job.refresh_from_db()
    assert (job.state, effects(ledger)) == (
        "succeeded",
        {"charge_found": 1, "asked": 1, "second": 1},
    )
