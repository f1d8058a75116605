"""A `keyed` step is sent again under one key, for as long as the provider remembers it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F

from jobs.errors import ReconcileRequired
from jobs.kinds import CannotTell, DidNotHappen, Happened, Intent, Run, job_kind, step
from jobs.models import Job, Step
from jobs.recovery.preflight import preflight
from jobs.recovery.retry import retry
from jobs.testing import attempt, crash_at, drain
from tests.drills.kinds import keyed
from tests.drills.ledger import effects, happened
from tests.integration.kernel.acting import ended, outcomes, resumed, states, tried, waiting
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def keys(ledger: str) -> dict[str, int]:
    """How often each key was sent."""
    sent = {line: count for line, count in effects(ledger).items() if line.startswith("key:")}
    return {line.removeprefix("key:"): count for line, count in sent.items()}


def forgotten(job: Job, name: str = "reserve") -> None:
    """Let the provider's memory of the key be over: everything about the intent is a day older."""
    ago = timedelta(hours=25)
    Step.objects.filter(job=job, name=name).update(
        intent_at=F("intent_at") - ago, opens_at=F("opens_at") - ago
    )


def test_every_attempt_and_every_resume_sends_the_same_key(acme: Workspace, ledger: str) -> None:
    job = ended(keyed.s(ledger=ledger, fault="http_502"), acme)
    again = resumed(job)
    (sent,) = keys(ledger).items()
    assert (job.state, job.cause, again.state, again.cause) == (
        "dead",
        "exhausted",
        "dead",
        "exhausted",
    )
    assert sent[1] == 6
    assert len(sent[0]) == 64


def test_a_restart_sends_another_and_says_so(acme: Workspace, ledger: str) -> None:
    job = ended(keyed.s(ledger=ledger, fault="http_502"), acme)
    (step_,) = [s for s in preflight(job, "restart", SYSTEM).steps if s.name == "reserve"]
    again = resumed(job, "restart")
    assert (step_.word.value, step_.why) == ("runs again", "a restart sends it under a new key")
    assert (again.epoch, again.root_id, again.key) == (1, job.root_id, job.key)
    assert sorted(keys(ledger).values()) == [3, 3]


def test_two_jobs_and_two_steps_never_share_a_key(acme: Workspace, ledger: str) -> None:
    for key in ("a", "b"):
        ended(keyed.s(ledger=ledger), acme, key)
    assert list(keys(ledger).values()) == [1, 1]


def test_while_the_key_is_remembered_nothing_is_open(acme: Workspace, ledger: str) -> None:
    """The provider was merely down: sending again is safe, so nobody need look."""
    job = ended(keyed.s(ledger=ledger, fault="reset"), acme)
    assert (job.state, job.cause, states(job)) == ("dead", "exhausted", {"reserve": "started"})
    words = {s.name: s.word.value for s in preflight(job, "resume", SYSTEM).steps}
    assert words == {"reserve": "runs", "second": "runs"}


def test_the_first_intent_counts_for_how_long_the_key_is_remembered(
    acme: Workspace, ledger: str
) -> None:
    job = tried(keyed.s(ledger=ledger, fault="reset"), acme)
    first = job.steps.get().opens_at
    attempt(job)
    row = job.steps.get()
    assert (row.opens_at, row.attempt) == (first, 1)
    assert row.intent_at is not None
    assert first == row.intent_at + timedelta(hours=24)


def test_a_definite_no_closes_the_intent_and_the_next_one_counts_anew(
    acme: Workspace, ledger: str
) -> None:
    job = tried(keyed.s(ledger=ledger, fault="refused"), acme)
    forgotten(job)
    closed = states(job)
    job = attempt(job)
    assert closed == {"reserve": "not_done"}
    assert states(job) == {"reserve": "not_done"}
    assert (job.state, job.failures) == ("queued", 2)


def test_a_definite_no_to_a_second_send_says_nothing_about_the_first(
    acme: Workspace, ledger: str
) -> None:
    """The provider may have acted at the first one, whose answer was cut off."""
    job = tried(keyed.s(ledger=ledger, fault="reset"), acme)
    first = job.steps.get().opens_at
    Job.objects.filter(pk=job.pk).update(params={"ledger": ledger, "fault": "refused"})
    attempt(job)
    row = job.steps.get()
    assert (row.state, row.attempt, row.opens_at) == ("started", 1, first)
    forgotten(job)
    drain()
    job.refresh_from_db()
    assert (job.state, job.cause) == ("dead", "uncertain")


def test_a_key_that_is_forgotten_makes_it_a_once_step(acme: Workspace, ledger: str) -> None:
    job = tried(keyed.s(ledger=ledger, fault="reset"), acme)
    forgotten(job)
    attempt(job)
    assert (job.state, job.cause) == ("dead", "uncertain")
    assert outcomes(job)[-1] == (
        "uncertain",
        "step reserve: it was started, no outcome is recorded, nobody can be asked",
    )
    assert list(keys(ledger).values()) == [1]
    with pytest.raises(ReconcileRequired):
        retry(job.pk, mode="resume", actor=SYSTEM, reason="try")


def test_a_dead_job_whose_key_is_forgotten_later_is_blocked_from_then_on(
    acme: Workspace, ledger: str
) -> None:
    job = ended(keyed.s(ledger=ledger, fault="reset"), acme)
    before = preflight(job, "resume", SYSTEM)
    forgotten(job)
    after = preflight(job, "resume", SYSTEM)
    assert before.refusal is None
    assert after.refusal is not None
    assert after.refusal.code == "reconcile_required"
    assert before.digest != after.digest


@pytest.mark.parametrize(
    ("answer", "ends", "sent"),
    [
        (Happened({"found": True}), ("succeeded", ""), 1),
        (DidNotHappen(), ("succeeded", ""), 2),
        (CannotTell("no records"), ("dead", "uncertain"), 1),
    ],
)
def test_a_forgotten_key_can_be_asked_about(
    acme: Workspace,
    ledger: str,
    answer: Happened | DidNotHappen | CannotTell,
    ends: tuple[str, str],
    sent: int,
) -> None:
    def ask(intent: Intent, ledger: str) -> Happened | DidNotHappen | CannotTell:
        happened(ledger, f"asked-{intent.key}")
        return answer

    @step.keyed("hold", remembers=timedelta(hours=24), reconcile=ask)
    def hold(key: str, ledger: str) -> dict[str, bool]:
        happened(ledger, f"key:{key}")
        return {"held": True}

    @job_kind("scene.holds", steps=(hold,))
    def holds(run: Run, *, ledger: str) -> None:
        run(hold, ledger)

    job = waiting(holds.s(ledger=ledger), acme)
    with crash_at(hold, "during"):
        drain()
    forgotten(job, "hold")
    drain()
    job.refresh_from_db()
    assert (job.state, job.cause) == ends
    assert set(keys(ledger)) == {
        line.removeprefix("asked-") for line in effects(ledger) if "asked" in line
    }
    assert sum(keys(ledger).values()) == sent


def test_a_success_that_left_a_forgotten_key_open_is_uncertain(
    acme: Workspace, ledger: str
) -> None:
    @step.keyed("hold", remembers=timedelta(milliseconds=1))
    def hold(key: str) -> None:
        raise TimeoutError

    @job_kind("scene.shrugs_it_off", steps=(hold,))
    def shrugs_it_off(run: Run) -> None:
        try:
            run(hold)
        except TimeoutError:
            forgotten(Job.objects.get(pk=run.job_id), "hold")

    job = ended(shrugs_it_off.s(), acme)
    assert (job.state, job.cause) == ("dead", "uncertain")


def test_a_success_that_left_a_remembered_key_is_a_success(acme: Workspace) -> None:
    @step.keyed("hold", remembers=timedelta(hours=1))
    def hold(key: str) -> None:
        raise TimeoutError

    @job_kind("scene.does_without", steps=(hold,))
    def does_without(run: Run) -> None:
        try:
            run(hold)
        except TimeoutError:
            pass

    assert ended(does_without.s(), acme).state == "succeeded"
