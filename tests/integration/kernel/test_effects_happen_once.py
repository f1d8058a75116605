"""Whatever goes wrong after an effect, the effect is not done twice."""

from datetime import timedelta
from pathlib import Path

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db.models.functions import Now

from jobs.errors import ReconcileRequired
from jobs.models import Attempt, Job, Step
from jobs.recovery.reconcile import reconcile
from jobs.recovery.retry import retry
from tests.drills import faults
from tests.drills.kinds import keyed, not_happened, once, pages, reconciled, repeatable
from tests.drills.ledger import effects
from tests.integration.kernel.scene import answer, attempt, attempts, outcomes, steps
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True)]

WHY = "somebody looked into it"
AFTER_THE_EFFECT = ["key_error", "not_json", "too_large", "nul", "http_502", "soft_limit"]
UNSTORABLE = {"not_json", "too_large", "nul"}


def _soft_limit() -> None:
    raise SoftTimeLimitExceeded


@pytest.fixture(autouse=True)
def _a_soft_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(faults.FAULTS, "soft_limit", _soft_limit)


@pytest.mark.parametrize("fault", AFTER_THE_EFFECT)
def test_nobody_to_ask(workspace: Workspace, ledger: str, fault: str) -> None:
    job = attempts(once.s(ledger=ledger, fault=fault).enqueue(workspace=workspace, key="a"))
    assert effects(ledger)["charge"] == 1
    if fault in UNSTORABLE:
        assert (job.cause, steps(job)["charge"]) == ("terminal", "done")
        attempts(retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY))
    else:
        assert (job.cause, outcomes(job)) == ("uncertain", ["uncertain"])
        with pytest.raises(ReconcileRequired):
            retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
        reconcile(job.pk, step="charge", outcome="happened", actor=SYSTEM, reason=WHY)
        successor = attempts(retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY))
        assert successor.state == "succeeded"
    assert effects(ledger)["charge"] == 1


@pytest.mark.parametrize("fault", AFTER_THE_EFFECT)
def test_a_provider_that_can_be_asked(workspace: Workspace, ledger: str, fault: str) -> None:
    job = attempts(reconciled.s(ledger=ledger, fault=fault).enqueue(workspace=workspace, key="a"))
    if job.state == "dead":
        job = attempts(retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY))
    assert effects(ledger)["charge_found"] == 1
    if fault not in UNSTORABLE:
        assert job.result == {"charge": {"found": True}}


def test_an_output_that_could_not_be_stored_can_be_recorded_by_hand(
    workspace: Workspace, ledger: str
) -> None:
    job = attempts(once.s(ledger=ledger, fault="nul").enqueue(workspace=workspace, key="a"))
    said = {"ok": "by hand"}
    reconcile(job.pk, step="charge", outcome="happened", output=said, actor=SYSTEM, reason=WHY)
    successor = attempts(retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY))
    assert successor.state == "succeeded"
    assert Step.objects.get(job=successor, name="charge").output == said
    assert effects(ledger)["charge"] == 1


def test_what_did_not_happen_is_done_after_the_provider_said_so(
    workspace: Workspace, ledger: str, tmp_path: Path
) -> None:
    job = not_happened.s(ledger=ledger, fault="reset", once_file=str(tmp_path / "once"))
    assert attempts(job.enqueue(workspace=workspace, key="a")).state == "succeeded"
    assert effects(ledger) == {"asked": 1, "charge_lost": 1, "second": 1}


def test_a_provider_that_cannot_tell_ends_the_job_uncertain(
    workspace: Workspace, ledger: str
) -> None:
    answer(ledger, "cannot_tell")
    job = reconciled.s(ledger=ledger, fault="http_502").enqueue(workspace=workspace, key="a")
    assert attempt(job).state == "queued"
    assert attempt(job).cause == "uncertain"
    assert "keeps no records" in Attempt.objects.get(job=job, number=2).message


@pytest.mark.parametrize("fault", ["http_404", "http_429", "rate_limited", "refused", "surely_not"])
def test_a_definite_no_closes_the_intent(workspace: Workspace, ledger: str, fault: str) -> None:
    job = attempt(once.s(ledger=ledger, fault=fault).enqueue(workspace=workspace, key="a"))
    assert steps(job) == {"charge": "not_done"}
    assert job.cause != "uncertain"


def test_a_keyed_step_whose_provider_stays_down_ends_exhausted(
    workspace: Workspace, ledger: str
) -> None:
    job = attempts(keyed.s(ledger=ledger, fault="http_502").enqueue(workspace=workspace, key="a"))
    assert (job.cause, outcomes(job)) == ("exhausted", ["failed"] * 3)
    assert list(effects(ledger).values()) == [3], "one and the same key, three times"


def test_a_keyed_step_older_than_its_key_is_not_sent_again_blindly(
    workspace: Workspace, ledger: str
) -> None:
    job = keyed.s(ledger=ledger, fault="http_502").enqueue(workspace=workspace, key="a")
    attempt(job)
    Step.objects.filter(job=job).update(opens_at=Now() - timedelta(seconds=1))
    assert attempt(job).cause == "uncertain"
    assert sum(effects(ledger).values()) == 1


def test_a_resume_keeps_the_key_and_a_restart_takes_another(
    workspace: Workspace, ledger: str
) -> None:
    job = attempts(keyed.s(ledger=ledger, fault="terminal").enqueue(workspace=workspace, key="a"))
    resumed = attempts(retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY))
    assert len(effects(ledger)) == 1
    attempts(retry(resumed.pk, mode="restart", actor=SYSTEM, reason=WHY))
    assert len(effects(ledger)) == 2


def test_a_loop_goes_on_at_the_page_it_had_reached(
    workspace: Workspace, ledger: str, tmp_path: Path
) -> None:
    job = pages.s(ledger=ledger, count=5, fail_at=3, once_file=str(tmp_path / "once"))
    assert attempts(job.enqueue(workspace=workspace, key="a")).result == 5
    assert effects(ledger) == {f"page{n}": 1 for n in range(5)}


def test_a_finished_step_is_never_run_again_by_a_later_attempt(
    workspace: Workspace, ledger: str
) -> None:
    job = repeatable.s(ledger=ledger).enqueue(workspace=workspace, key="a")
    attempt(job)
    # As if the last commit of the attempt had been all that a crash took away.
    Attempt.objects.filter(job=job).delete()
    Step.objects.filter(job=job, name="second").delete()
    Job.objects.filter(pk=job.pk).update(state="queued", finished_at=None)
    assert attempt(job).state == "succeeded"
    assert effects(ledger) == {"first": 1, "second": 2}
