"""What a worker brings after its lease was lost: void as a write, kept as evidence, and used."""

from __future__ import annotations

import pytest

from jobs.kinds import DidNotHappen, Intent, Run, Transient, job_kind, step
from jobs.models import Event, Job
from jobs.recovery.preflight import preflight
from jobs.recovery.retry import retry
from jobs.testing import at_step, attempt, drain, leave_for_dead, lose_lease
from tests.drills.kinds import keyed, once, repeatable
from tests.drills.ledger import effects, happened
from tests.integration.kernel.acting import outcomes, resumed, states, told, waiting
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def overtaken(job: Job, name: str) -> None:
    """Another worker takes the job while the step runs, and dies before it does anything."""
    with at_step(name, "during", lambda _: lose_lease(job)):
        attempt(job)
    leave_for_dead(job)
    job.refresh_from_db()


def test_the_output_of_an_open_step_is_kept_and_told(acme: Workspace, ledger: str) -> None:
    job = waiting(once.s(ledger=ledger), acme)
    with at_step("charge", "during", lambda _: lose_lease(job)):
        attempt(job)

    row = job.steps.get()
    event = Event.objects.get(type="job.late_write")
    assert (job.state, job.attempt, job.result) == ("running", 2, None)
    assert (row.state, row.output, row.late_output) == ("started", None, {"ok": True})
    assert row.late_at is not None
    assert (event.subject, event.data) == (
        str(job.pk),
        {"kind": "drills.once", "step": "charge", "attempt": 1},
    )
    assert outcomes(job) == [("lost", "worker lost")]


def test_the_next_attempt_takes_it_for_what_happened(acme: Workspace, ledger: str) -> None:
    job = waiting(once.s(ledger=ledger), acme)
    overtaken(job, "charge")
    drain()
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("succeeded", 3)
    assert (job.steps.get(name="charge").output, states(job)) == (
        {"ok": True},
        {"charge": "done", "second": "done"},
    )
    assert effects(ledger) == {"charge": 1, "second": 1}


def test_it_is_believed_without_asking_and_before_anything_fails(
    acme: Workspace, ledger: str
) -> None:
    """A step whose output is known is not open, whatever else goes wrong."""

    def ask(intent: Intent, ledger: str) -> DidNotHappen:
        happened(ledger, "asked")
        return DidNotHappen()

    @step.once("pay", reconcile=ask)
    def pay(ledger: str) -> dict[str, bool]:
        happened(ledger, "pay")
        return {"paid": True}

    @job_kind("scene.stumbles_first", steps=(pay,))
    def stumbles_first(run: Run, *, ledger: str) -> dict[str, bool]:
        if run.attempt == 3:
            raise Transient("before the step is reached")
        return run(pay, ledger)

    job = waiting(stumbles_first.s(ledger=ledger), acme)
    overtaken(job, "pay")
    drain()
    job.refresh_from_db()
    assert (job.state, job.attempt, job.result) == ("succeeded", 4, {"paid": True})
    assert effects(ledger) == {"pay": 1}


def test_without_a_reconcile_a_failure_before_the_step_is_still_only_a_failure(
    acme: Workspace, ledger: str
) -> None:
    job = waiting(once.s(ledger=ledger), acme)
    overtaken(job, "charge")

    def fail(_: object) -> None:
        raise Transient("before the step is reached")

    with at_step("charge", "before", fail):
        attempt(job)
    assert (job.state, job.wait_reason) == ("queued", "retry")
    drain()
    job.refresh_from_db()
    assert job.state == "succeeded"
    assert effects(ledger) == {"charge": 1, "second": 1}


def test_a_job_that_died_meanwhile_is_resumed_with_it(acme: Workspace, ledger: str) -> None:
    job = waiting(once.s(ledger=ledger), acme)

    def given_up(_: object) -> None:
        Job.objects.filter(pk=job.pk).update(losses=99)
        leave_for_dead(job)

    with at_step("charge", "during", given_up):
        attempt(job)

    assert (job.state, job.cause) == ("dead", "uncertain")
    words = {s.name: (s.word.value, s.why) for s in preflight(job, "resume", SYSTEM).steps}
    assert words["charge"] == ("kept", "its worker brought the output late")
    successor = resumed(job)
    assert (successor.state, effects(ledger)) == ("succeeded", {"charge": 1, "second": 1})


def test_it_reaches_the_copy_in_a_successor(acme: Workspace, ledger: str) -> None:
    def ask(intent: Intent, ledger: str) -> DidNotHappen:
        raise Transient("not now")

    @step.once("pay", reconcile=ask)
    def pay(ledger: str) -> dict[str, bool]:
        happened(ledger, "pay")
        return {"paid": True}

    @job_kind("scene.retried_meanwhile", steps=(pay,), max_losses=0)
    def kind(run: Run, *, ledger: str) -> dict[str, bool]:
        return run(pay, ledger)

    successors: list[Job] = []

    def retried_meanwhile(_: object) -> None:
        leave_for_dead(job)
        successors.append(retry(job.pk, mode="resume", actor=SYSTEM, reason="go on"))

    job = waiting(kind.s(ledger=ledger), acme)
    with at_step(pay, "during", retried_meanwhile):
        attempt(job)

    (successor,) = successors
    copy = successor.steps.get()
    assert (copy.carried_from, copy.state, copy.late_output) == (job.pk, "started", {"paid": True})
    drain()
    successor.refresh_from_db()
    assert (successor.state, successor.result) == ("succeeded", {"paid": True})
    assert effects(ledger) == {"pay": 1}


def test_the_late_output_of_a_keyed_step_is_used_too(acme: Workspace, ledger: str) -> None:
    job = waiting(keyed.s(ledger=ledger), acme)
    overtaken(job, "reserve")
    drain()
    job.refresh_from_db()
    assert (job.state, sum(effects(ledger).values())) == ("succeeded", 2)


def test_nothing_is_kept_of_a_step_that_may_simply_run_again(acme: Workspace, ledger: str) -> None:
    job = waiting(repeatable.s(ledger=ledger), acme)
    with at_step("first", "during", lambda _: lose_lease(job)):
        attempt(job)
    assert states(job) == {}
    assert told(job) == []


def test_an_unusable_late_output_is_no_evidence(acme: Workspace, ledger: str) -> None:
    job = waiting(once.s(ledger=ledger, fault="nul"), acme)
    with at_step("charge", "during", lambda _: lose_lease(job)):
        attempt(job)
    assert (states(job), told(job)) == ({"charge": "started"}, [])


def test_a_handler_that_returns_too_late_changes_nothing_and_says_so(
    acme: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    """Without steps nothing told it of the loss: only the close finds out."""

    @job_kind("scene.late")
    def late(run: Run) -> str:
        lose_lease(run.job_id)
        return "mine"

    job = attempt(waiting(late.s(), acme))
    assert (job.state, job.attempt, job.result) == ("running", 2, None)
    assert outcomes(job) == [("lost", "worker lost")]
    assert "job.late_close" in caplog.messages
