"""The whole way through the kernel: a real job dies, is told of, retried, and ends well."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import transaction

from alerts import receivers
from alerts.models import Alert
from jobs import runner
from jobs.events import MAX_TRIES
from jobs.models import Event, Job
from jobs.recovery.cancel import cancel
from jobs.recovery.reconcile import reconcile
from jobs.recovery.resolve import resolve
from jobs.recovery.retry import retry
from jobs.sweep import sweep
from tests.drills.kinds import keyed, once, repeatable, secretive
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


def run(job: Job) -> Job:
    """Run a job that is due; inline mode has run it already."""
    runner.execute(job.kind, job.pk)
    job.refresh_from_db()
    return job


def test_a_job_that_fails_for_good_opens_an_alert_that_leads_back_to_it(
    acme: Workspace, ledger: str
) -> None:
    job = run(repeatable.s(ledger=ledger, fault="terminal").enqueue(workspace=acme, key="a"))
    assert job.state == "dead"
    alert = Alert.objects.get()
    assert (alert.severity, alert.title) == (
        "error",
        "drills.repeatable failed at step 'first': Terminal",
    )
    trace = alert.trace
    assert (trace["job_id"], trace["key"], trace["attempt"]) == (str(job.pk), "a", 1)
    assert (trace["error_class"], trace["message"]) == ("jobs.outcomes.Terminal", "never")
    assert alert.fingerprint == job.attempts.get().fingerprint


def test_a_job_that_dies_uncertain_opens_a_critical_alert(acme: Workspace, ledger: str) -> None:
    run(once.s(ledger=ledger, fault="key_error").enqueue(workspace=acme, key="a"))
    alert = Alert.objects.get()
    assert (alert.severity, alert.title) == (
        "critical",
        "drills.once may or may not have carried out step 'charge'",
    )


def test_jobs_that_die_of_one_cause_share_an_alert_whatever_their_keys(
    acme: Workspace, ledger: str
) -> None:
    for key in ("a", "b", "c"):
        run(keyed.s(ledger=ledger, fault="terminal").enqueue(workspace=acme, key=key))
    assert Alert.objects.get().count == 3


def test_a_job_that_succeeds_opens_nothing(acme: Workspace, ledger: str) -> None:
    assert run(repeatable.s(ledger=ledger).enqueue(workspace=acme, key="a")).state == "succeeded"
    assert not Alert.objects.exists()


def test_a_retry_that_succeeds_resolves_the_alert(
    acme: Workspace, ledger: str, tmp_path: Path
) -> None:
    mended = str(tmp_path / "mended")
    signature = repeatable.s(ledger=ledger, fault="terminal", once_file=mended)
    job = run(signature.enqueue(workspace=acme, key="a"))
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason="mended")
    assert run(successor).state == "succeeded"
    alert = Alert.objects.get()
    assert (alert.state, alert.resolution) == (
        "resolved",
        "The last affected job succeeded on retry.",
    )


def test_a_retry_that_dies_again_goes_back_into_its_alert_until_it_is_resolved(
    acme: Workspace, ledger: str
) -> None:
    job = run(repeatable.s(ledger=ledger, fault="terminal").enqueue(workspace=acme, key="a"))
    again = run(retry(job.pk, mode="resume", actor=SYSTEM, reason="try again"))
    alert = Alert.objects.get()
    assert (again.state, alert.state, alert.count) == ("dead", "open", 2)
    resolve(again.pk, actor=SYSTEM, reason="no longer needed")
    alert.refresh_from_db()
    assert (alert.state, alert.resolution) == (
        "resolved",
        "The last affected job was resolved by an operator.",
    )


def test_a_cancelled_retry_resolves_the_alert(acme: Workspace, ledger: str) -> None:
    job = run(repeatable.s(ledger=ledger, fault="terminal").enqueue(workspace=acme, key="a"))
    with transaction.atomic():  # not yet published, so nothing runs it before it is cancelled
        successor = retry(job.pk, mode="resume", actor=SYSTEM, reason="try again")
        cancel(successor.pk, actor=SYSTEM, reason="not worth it")
    assert Alert.objects.get().resolution == "The last affected job was cancelled by an operator."


def test_reconciling_leaves_the_alert_open_until_the_retry_has_succeeded(
    acme: Workspace, ledger: str
) -> None:
    job = run(once.s(ledger=ledger, fault="key_error").enqueue(workspace=acme, key="a"))
    reconcile(
        job.pk,
        step="charge",
        outcome="happened",
        output={"ok": True},
        actor=SYSTEM,
        reason="seen at the provider",
    )
    assert Alert.objects.get().state == "open"
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason="go on")
    assert run(successor).state == "succeeded"
    assert Alert.objects.get().state == "resolved"


def test_no_secret_of_the_job_reaches_its_alert(acme: Workspace, ledger: str) -> None:
    card = {"number": "4111-canary-1111"}
    run(secretive.s(ledger=ledger, card=card, fault="leak").enqueue(workspace=acme, key="a"))
    alert = Alert.objects.values().get()
    assert alert["runbook"] == "https://runbooks.example.com/secretive"
    assert "canary" not in str(alert)
    assert "canary" not in str(list(Event.objects.filter(type="alert.opened").values()))


def test_a_receiver_that_fails_leaves_the_job_dead_and_is_called_again_by_the_sweeper(
    acme: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(receivers, "open_for", lambda job_id, death: 1 / 0)
        job = run(repeatable.s(ledger=ledger, fault="terminal").enqueue(workspace=acme, key="a"))
    assert job.state == "dead"
    assert not Alert.objects.exists()
    event = Event.objects.get(type="job.dead")
    assert "ZeroDivisionError" in event.error
    assert event.tries < MAX_TRIES
    assert sweep().delivered == 1
    assert Alert.objects.get().trace["job_id"] == str(job.pk)
    assert sweep().delivered == 0
