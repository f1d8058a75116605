"""Sentry hears of each dead letter once, and of no failure that a retry follows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.db.models.functions import Now

from alerts.models import Alert
from jobs import tasks
from jobs.models import Job
from tests.acceptance.stack import Stack
from tests.acceptance.watching import ended, outcomes
from tests.drills.held import stubborn_job
from tests.drills.kinds import kills_itself, noop, once, reconciled, repeatable
from tests.drills.talkative import talkative
from tests.support.sentry import Sentry
from tests.waiting import wait_until
from workspaces.models import Workspace

CANARY = "4111-canary-1111"
REQUEST = "req-4f1d0c77"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def all_said(stack: Stack) -> None:
    """Stop what reports, which sends what it still holds, and start it again."""
    stack.worker.stop()
    stack.beat.stop()
    stack.restore()


def of_jobs(reports: Sentry, *jobs: Job) -> list[dict[str, Any]]:
    return [event for job in jobs for event in reports.of_job(job.pk)]


def test_each_way_to_die_is_reported_once_from_wherever_it_is_decided(
    stack: Stack, workspace: Workspace, reports: Sentry, ledger: str
) -> None:
    fails = repeatable.s(ledger=ledger, fault="terminal").enqueue(workspace=workspace, key="t")
    doubts = once.s(ledger=ledger, fault="http_502").enqueue(workspace=workspace, key="u")
    lost = kills_itself.s(ledger=ledger).enqueue(workspace=workspace, key="l")
    late = noop.s().enqueue(workspace=workspace, key="d", countdown=3600)
    Job.objects.filter(pk=late.pk).update(deadline_at=Now())
    cancelled = _cancelled_in_doubt(stack, workspace, ledger)
    jobs = [fails, doubts, lost, late, cancelled]
    causes = [ended(job).cause for job in jobs]
    assert causes == ["terminal", "uncertain", "lost", "deadline", "uncertain"]
    all_said(stack)
    told = of_jobs(reports, *jobs)
    assert [event["tags"]["job_id"] for event in told] == [str(job.pk) for job in jobs]
    assert [event["tags"]["cause"] for event in told] == causes
    assert [event["level"] for event in told] == ["error", "fatal", "error", "error", "fatal"]


def _cancelled_in_doubt(stack: Stack, workspace: Workspace, ledger: str) -> Job:
    """A job that waits with an open intent, and dies of a command that cancels it."""
    intended = reconciled.s(ledger=ledger, fault="http_502")
    job = intended.enqueue(workspace=workspace, key="c")
    wait_until(lambda: Job.objects.filter(pk=job.pk, failures=1, state="queued").exists())
    Job.objects.filter(pk=job.pk).update(run_at="2100-01-01T00:00Z", wake_at="2100-01-01T00:00Z")
    stack.manage("job", "cancel", str(job.pk), "--reason", "not needed any more")
    return job


def test_a_report_says_whose_it_is_and_is_grouped_as_its_alert(
    stack: Stack, workspace: Workspace, reports: Sentry, ledger: str
) -> None:
    one = repeatable.s(ledger=ledger, fault="terminal")
    job = one.enqueue(workspace=workspace, key="1", request_id=REQUEST, traceparent=TRACEPARENT)
    first = ended(job)
    second = ended(one.enqueue(workspace=workspace, key="2"))
    wait_until(lambda: len(of_jobs(reports, first, second)) == 2)
    report, other = of_jobs(reports, first, second)
    tags = {name: report["tags"][name] for name in ("job_id", "kind", "attempt", "workspace")}
    assert tags == {
        "job_id": str(first.pk),
        "kind": "drills.repeatable",
        "attempt": "1",
        "workspace": workspace.slug,
    }
    assert report["tags"]["request_id"] == REQUEST
    assert report["tags"]["trace"] == report["contexts"]["trace"]["trace_id"] == TRACE
    alert = Alert.objects.get(workspace=workspace)
    assert report["fingerprint"] == other["fingerprint"] == [alert.cause_key]
    assert report["message"] == alert.title
    assert "Terminal: never" in report["extra"]["traceback"]
    assert report["environment"] == "test"


@pytest.mark.timeout(180)
def test_nothing_is_said_while_a_retry_follows(
    stack: Stack, workspace: Workspace, reports: Sentry, ledger: str, tmp_path: Path
) -> None:
    card = {"number": CANARY}
    recovers = talkative.s(card=card, fault="transient", once_file=str(tmp_path / "once"))
    job = ended(recovers.enqueue(workspace=workspace, key="recovers"))
    assert outcomes(job) == ["failed", "succeeded"]
    Path(f"{ledger}.hold").touch()
    timed = ended(stubborn_job.s(ledger=ledger).enqueue(workspace=workspace, key="times"))
    assert (timed.cause, outcomes(timed)) == ("exhausted", ["timed_out", "timed_out"])
    all_said(stack)
    assert of_jobs(reports, job) == []
    assert len(of_jobs(reports, timed)) == 1


def test_no_report_holds_what_a_job_was_given_or_gave(
    stack: Stack, workspace: Workspace, reports: Sentry
) -> None:
    job = talkative.s(card={"number": CANARY}, fault="terminal")
    dead = ended(job.enqueue(workspace=workspace, key="secret"))
    wait_until(lambda: of_jobs(reports, dead))
    assert CANARY not in "".join(reports.raw)
    assert "breadcrumbs" not in of_jobs(reports, dead)[0]


def test_a_refusal_is_an_answer_and_no_report(
    stack: Stack, workspace: Workspace, reports: Sentry
) -> None:
    job = ended(noop.s().enqueue(workspace=workspace, key="fine"))
    before = len(reports.items)
    with pytest.raises(AssertionError, match="not_retryable"):
        stack.manage("job", "retry", str(job.pk), "--reason", "again")
    assert len(reports.items) == before


def test_an_unexpected_error_of_the_platform_is_reported_once(
    stack: Stack, reports: Sentry
) -> None:
    before = Counter(kind for kind, _ in reports.items)
    current_app.send_task("drills.noop", args=("no id at all",), queue="default")
    wait_until(lambda: any("hexadecimal" in json.dumps(event) for event in reports.events))
    all_said(stack)
    after = Counter(kind for kind, _ in reports.items)
    assert after["event"] - before["event"] == 1


def test_a_message_that_claims_nothing_sends_nothing(
    stack: Stack, workspace: Workspace, reports: Sentry
) -> None:
    job = ended(noop.s().enqueue(workspace=workspace, key="once"))
    before = len(reports.raw)
    for _ in range(5):
        tasks.send([(job.pk, job.kind)])
    wait_until(lambda: stack.wire().llen("default") == 0, what="the messages are taken")
    all_said(stack)
    assert reports.raw[before:] == []
