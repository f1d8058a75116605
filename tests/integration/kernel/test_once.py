"""A `once` step happens once, whatever goes wrong right after its effect."""

from __future__ import annotations

from datetime import timedelta

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from django.db.models.functions import Now

from jobs.kinds import CannotTell, Happened, Intent, Run, Transient, job_kind, step
from jobs.models import Job
from jobs.recovery.reconcile import reconcile
from jobs.testing import at_step, attempt, crash_at, drain
from tests.drills.faults import FAULTS
from tests.drills.kinds import not_happened, once, reconciled
from tests.drills.ledger import effects, happened
from tests.integration.kernel.acting import (
    ended,
    outcomes,
    resumed,
    states,
    told,
    tried,
    waiting,
)
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def out_of_time() -> None:
    raise SoftTimeLimitExceeded


FAULTS.setdefault("soft_time_limit", out_of_time)

# What went wrong right after the effect; what the attempt says; whether anybody knows the truth.
IN_DOUBT = {
    "key_error": ("uncertain", "unclassified"),
    "http_502": ("uncertain", "http_502; step charge was started and nobody can be asked"),
    "reset": ("uncertain", "connection_lost; step charge was started and nobody can be asked"),
    "transient": ("uncertain", "transient; step charge was started and nobody can be asked"),
    "terminal": ("uncertain", "terminal"),
    "soft_time_limit": (
        "uncertain",
        "soft_time_limit; step charge was started and nobody can be asked",
    ),
}
UNUSABLE = ("not_json", "too_large", "nul")


def settled_by_hand(job: Job, name: str = "charge") -> None:
    reconcile(
        job.pk, step=name, outcome="happened", output={"seen": True}, actor=SYSTEM, reason="seen"
    )


@pytest.mark.parametrize("fault", sorted(IN_DOUBT))
def test_what_fails_after_the_effect_is_never_done_again_on_a_guess(
    acme: Workspace, ledger: str, fault: str
) -> None:
    job = ended(once.s(ledger=ledger, fault=fault), acme)

    assert (job.state, job.cause, job.attempt) == ("dead", "uncertain", 1)
    assert outcomes(job) == [IN_DOUBT[fault]]
    assert states(job) == {"charge": "started"}
    assert told(job) == ["job.uncertain"]

    settled_by_hand(job)
    successor = resumed(job)

    assert successor.state == "succeeded"
    assert effects(ledger) == {"charge": 1, "second": 1}


@pytest.mark.parametrize("fault", UNUSABLE)
def test_an_output_that_cannot_be_stored_is_done_all_the_same(
    acme: Workspace, ledger: str, fault: str
) -> None:
    job = ended(once.s(ledger=ledger, fault=fault), acme)

    assert (job.state, job.cause, job.attempt) == ("dead", "terminal", 1)
    row = job.steps.get()
    assert (row.state, row.output, bool(row.output_error)) == ("done", None, True)
    assert job.attempts.get().error_class == "jobs.stops.OutputUnusable"

    again = resumed(job)
    assert (again.state, again.cause) == ("dead", "terminal")
    assert effects(ledger) == {"charge": 1}

    settled_by_hand(again)
    assert resumed(again).state == "succeeded"
    assert effects(ledger) == {"charge": 1, "second": 1}


@pytest.mark.parametrize("fault", ["refused", "http_404", "http_429", "rate_limited", "surely_not"])
def test_a_definite_no_closes_the_intent(acme: Workspace, ledger: str, fault: str) -> None:
    """The ledger counts calls here: what was refused did not happen at the provider."""
    job = tried(once.s(ledger=ledger, fault=fault), acme)
    row = job.steps.get()
    assert (row.name, row.state, row.output) == ("charge", "not_done", None)
    assert job.cause in ("", "terminal")


def test_after_a_definite_no_the_step_is_begun_anew(
    acme: Workspace, ledger: str, tmp_path: object
) -> None:
    job = ended(once.s(ledger=ledger, fault="refused", once_file=f"{ledger}.once"), acme)
    assert (job.state, job.attempt) == ("succeeded", 2)
    assert outcomes(job) == [("failed", "connection_refused"), ("succeeded", "")]
    assert effects(ledger)["charge"] == 2


def test_a_budget_spent_on_definite_noes_is_exhausted_and_not_uncertain(
    acme: Workspace, ledger: str
) -> None:
    job = ended(once.s(ledger=ledger, fault="refused"), acme)
    assert (job.state, job.cause, job.attempt) == ("dead", "exhausted", 4)
    assert states(job) == {"charge": "not_done"}


# --- asking the provider -------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["http_502", "reset", "transient", "soft_time_limit"])
def test_where_the_provider_can_be_asked_it_is_asked_after_the_backoff(
    acme: Workspace, ledger: str, fault: str
) -> None:
    job = tried(reconciled.s(ledger=ledger, fault=fault), acme)
    asked_at_once = effects(ledger)["asked"]
    assert (job.state, job.wait_reason) == ("queued", "retry")

    drain()

    job.refresh_from_db()
    assert asked_at_once == 0
    assert (job.state, job.result) == ("succeeded", {"charge": {"found": True}})
    assert effects(ledger) == {"charge_found": 1, "asked": 1, "second": 1}


def test_what_the_provider_found_stays_found_for_the_steps_after_it(
    acme: Workspace, ledger: str
) -> None:
    job = waiting(reconciled.s(ledger=ledger, fault="http_502"), acme)
    attempt(job)
    with at_step("second", "started", lambda _: FAULTS["transient"]()):
        attempt(job)
    drain()
    job.refresh_from_db()
    assert job.state == "succeeded"
    assert effects(ledger) == {"charge_found": 1, "asked": 1, "second": 1}


def test_a_programming_error_after_the_effect_is_dead_and_the_resume_asks(
    acme: Workspace, ledger: str
) -> None:
    job = ended(reconciled.s(ledger=ledger, fault="key_error"), acme)
    assert (job.state, job.cause, job.attempt) == ("dead", "uncertain", 1)

    successor = resumed(job)

    assert (successor.state, successor.result) == ("succeeded", {"charge": {"found": True}})
    assert effects(ledger) == {"charge_found": 1, "asked": 1, "second": 1}


def test_did_not_happen_is_believed_once_the_attempt_has_reported(
    acme: Workspace, ledger: str
) -> None:
    job = ended(not_happened.s(ledger=ledger, fault="http_502", once_file=f"{ledger}.once"), acme)
    assert (job.state, job.attempt) == ("succeeded", 2)
    assert effects(ledger) == {"asked": 1, "charge_lost": 1, "second": 1}


def test_did_not_happen_waits_for_the_time_limit_of_a_worker_that_may_still_live(
    acme: Workspace, ledger: str
) -> None:
    job = tried(not_happened.s(ledger=ledger, fault="http_502", once_file=f"{ledger}.once"), acme)
    written = job.attempts.filter(number=1)
    written.update(
        outcome="lost", worker="elsewhere/boot/1/1/1", kill_at=Now() + timedelta(hours=1)
    )
    attempt(job)
    early = (job.state, job.wait_reason, job.deferrals, job.failures)
    waits = (job.run_at - job.attempts.get().ended_at).total_seconds()
    written.update(kill_at=Now())
    drain()
    job.refresh_from_db()

    assert early == ("queued", "deferred", 1, 1)
    assert waits > 3000
    assert job.state == "succeeded"
    assert effects(ledger) == {"asked": 2, "charge_lost": 1, "second": 1}


def test_did_not_happen_is_believed_at_once_of_a_process_that_is_gone(
    acme: Workspace, ledger: str
) -> None:
    job = waiting(not_happened.s(ledger=ledger), acme)
    with crash_at("charge_lost", "started"):
        drain()
    attempt(job)
    assert (job.state, job.losses) == ("succeeded", 1)
    assert effects(ledger) == {"asked": 1, "charge_lost": 1, "second": 1}


def test_cannot_tell_ends_uncertain_saying_why(acme: Workspace, ledger: str) -> None:
    with open(f"{ledger}.answer", "w") as script:
        script.write("cannot_tell")
    job = ended(reconciled.s(ledger=ledger, fault="http_502"), acme)
    assert (job.state, job.cause) == ("dead", "uncertain")
    assert outcomes(job)[-1] == (
        "uncertain",
        "step charge_found: the provider cannot tell: the provider keeps no records",
    )
    assert effects(ledger) == {"charge_found": 1, "asked": 1}


def test_a_spent_budget_with_an_open_intent_is_uncertain_without_one_more_ask(
    acme: Workspace, ledger: str
) -> None:
    def fails(intent: Intent, ledger: str) -> CannotTell:
        happened(ledger, "asked")
        raise ConnectionRefusedError("nobody answers")

    @step.once("pay", reconcile=fails)
    def pay(ledger: str) -> None:
        happened(ledger, "pay")
        raise TimeoutError

    @job_kind("scene.unanswered", steps=(pay,), max_retries=2)
    def unanswered(run: Run, *, ledger: str) -> None:
        run(pay, ledger)

    job = ended(unanswered.s(ledger=ledger), acme)

    assert (job.state, job.cause, job.failures) == ("dead", "uncertain", 3)
    assert [reason for _, reason in outcomes(job)] == [
        "timeout",
        "connection_refused",
        "connection_refused; 2 retries are used up",
    ]
    assert states(job) == {"pay": "started"}
    assert effects(ledger) == {"pay": 1, "asked": 2}


def test_a_reconcile_that_answers_nonsense_is_a_failure_and_closes_nothing(
    acme: Workspace, ledger: str
) -> None:
    @step.once("pay", reconcile=lambda intent, ledger: True)  # type: ignore[arg-type,return-value]
    def pay(ledger: str) -> None:
        happened(ledger, "pay")
        raise TimeoutError

    @job_kind("scene.nonsense", steps=(pay,))
    def nonsense(run: Run, *, ledger: str) -> None:
        run(pay, ledger)

    job = ended(nonsense.s(ledger=ledger), acme)
    assert (job.state, job.cause, job.attempt) == ("dead", "uncertain", 2)
    assert "reconcile of step 'pay' returned bool" in job.attempts.get(number=2).message
    assert effects(ledger) == {"pay": 1}


def test_what_reconcile_found_but_cannot_be_stored_is_done_all_the_same(
    acme: Workspace, ledger: str
) -> None:
    @step.once("pay", reconcile=lambda intent, ledger: Happened({"at": object()}))
    def pay(ledger: str) -> None:
        happened(ledger, "pay")
        raise TimeoutError

    @job_kind("scene.unstorable", steps=(pay,))
    def unstorable(run: Run, *, ledger: str) -> None:
        run(pay, ledger)

    job = ended(unstorable.s(ledger=ledger), acme)
    assert (job.state, job.cause) == ("dead", "terminal")
    assert states(job) == {"pay": "done"}


def test_reconcile_is_told_the_key_the_moment_and_the_attempt(acme: Workspace, ledger: str) -> None:
    intents: list[Intent] = []

    def ask(intent: Intent, ledger: str) -> Happened:
        intents.append(intent)
        return Happened(None)

    @step.once("pay", reconcile=ask)
    def pay(ledger: str) -> None:
        raise TimeoutError

    @job_kind("scene.told", steps=(pay,))
    def told_well(run: Run, *, ledger: str) -> None:
        run(pay, ledger)

    job = ended(told_well.s(ledger=ledger), acme)
    (intent,) = intents
    row = job.steps.get()
    assert (intent.attempt, intent.started_at) == (1, row.intent_at)
    assert len(intent.key) == 64
    assert (job.state, row.attempt) == ("succeeded", 2)


# --- what a handler may try ----------------------------------------------------------------------


def test_a_handler_that_swallows_the_error_and_goes_on_does_not_make_it_certain(
    acme: Workspace, ledger: str
) -> None:
    @step.once("pay")
    def pay(ledger: str) -> None:
        happened(ledger, "pay")
        raise TimeoutError

    @job_kind("scene.swallows", steps=(pay,))
    def swallows(run: Run, *, ledger: str) -> str:
        try:
            run(pay, ledger)
        except TimeoutError:
            return "all is well"
        return "never"

    job = ended(swallows.s(ledger=ledger), acme)
    assert (job.state, job.cause) == ("dead", "uncertain")
    assert told(job) == ["job.uncertain"]
    last = job.attempts.get()
    assert (last.outcome, last.step) == ("uncertain", "pay")
    assert last.reason == "the handler returned, but step pay was started and its outcome is open"


def test_a_handler_that_tries_again_within_one_attempt_is_told_to_wait_for_the_next(
    acme: Workspace, ledger: str
) -> None:
    """A provider that lags would deny at once what it has just done."""

    def ask(intent: Intent, ledger: str) -> Happened:
        happened(ledger, "asked")
        return Happened({"found": True})

    @step.once("pay", reconcile=ask)
    def pay(ledger: str) -> dict[str, bool]:
        happened(ledger, "pay")
        raise TimeoutError

    @job_kind("scene.impatient", steps=(pay,))
    def impatient(run: Run, *, ledger: str) -> object:
        for _ in range(3):
            try:
                return run(pay, ledger)
            except TimeoutError:
                continue
        return None

    job = tried(impatient.s(ledger=ledger), acme)
    first = (job.state, effects(ledger))
    drain()
    job.refresh_from_db()

    assert first == ("queued", {"pay": 1})
    assert "asked about in the next attempt" in job.attempts.get(number=1).message
    assert (job.state, job.result) == ("succeeded", {"found": True})
    assert effects(ledger) == {"pay": 1, "asked": 1}


def test_a_late_failure_elsewhere_names_the_step_that_is_open(acme: Workspace, ledger: str) -> None:
    @step.once("pay")
    def pay(ledger: str) -> None:
        happened(ledger, "pay")

    @job_kind("scene.fails_before", steps=(pay,))
    def fails_before(run: Run, *, ledger: str) -> None:
        if run.attempt == 2:
            raise Transient("before the step is reached")
        run(pay, ledger)

    job = waiting(fails_before.s(ledger=ledger), acme)
    with crash_at(pay, "during"):
        drain()
    attempt(job)
    assert (job.state, job.cause) == ("dead", "uncertain")
    assert outcomes(job)[-1] == (
        "uncertain",
        "transient; step pay was started and nobody can be asked",
    )
