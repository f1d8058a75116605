"""Each way in which a queued job can be stuck is found, with its code and what helps."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.db import transaction

from config.doctor.answer import Level
from jobs import gates
from jobs.models import Job, Lock
from jobs.recovery.draft import draft
from jobs.recovery.operation import pause, start
from jobs.states import WaitReason
from tests.drills.kinds import by_account, gated, shared
from tests.integration.bulk_scene import DEAD_ONES, WHY, rows
from tests.integration.console_scene import dead, uncertain
from tests.integration.doctor.asking import ago, ahead, asked, is_about, is_well, queued, running
from tests.integration.kernel.scene import new_workspace
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

DUE = {"run_at": ago(seconds=90), "wake_at": ago(seconds=90)}


def test_due_and_never_published(acme: Workspace) -> None:
    job = queued(acme, run_at=ago(seconds=30), wake_at=ago(seconds=30))
    is_well("jobs.unpublished")
    Job.objects.filter(pk=job.pk).update(**DUE)
    is_about(asked("jobs.unpublished"), Level.FAIL, job, "manage.py sweep")


def test_a_job_behind_a_closed_gate_is_not_to_be_published(acme: Workspace, tmp_path: Path) -> None:
    told = by_account.s(ledger=str(tmp_path / "l"), account="42")
    job = told.enqueue(workspace=acme, key="gated", countdown=3600)
    gates.close(acme.pk, "account:42", seconds=60, reason="429")
    Job.objects.filter(pk=job.pk).update(**DUE)
    is_well("jobs.unpublished")


@pytest.mark.skipif(settings.FIREDOOR_INLINE, reason="inline mode publishes nothing")
def test_a_share_that_is_used_up_is_not_stuck_but_an_idle_one_is(
    acme: Workspace, tmp_path: Path
) -> None:
    told = shared.s(ledger=str(tmp_path / "l"))
    job = told.enqueue(workspace=acme, key="waits", countdown=3600)
    under_way = told.enqueue(workspace=acme, key="published", countdown=3600)
    Job.objects.filter(pk=job.pk).update(**DUE)
    Job.objects.filter(pk=under_way.pk).update(publishes=1)
    is_well("jobs.unpublished")
    Job.objects.filter(pk=under_way.pk).update(publishes=0)
    is_about(asked("jobs.unpublished"), Level.FAIL, job, "manage.py sweep")


@pytest.mark.skipif(settings.FIREDOOR_INLINE, reason="inline mode publishes nothing")
def test_a_share_behind_a_gate_may_be_used_up_in_another_workspace_if_it_is_the_platforms(
    acme: Workspace,
) -> None:
    under_way = queued(new_workspace(), kind=gated.name, gate="*bank", publishes=1)
    Job.objects.filter(pk=under_way.pk).update(wake_at=ahead(minutes=5))
    job = queued(acme, kind=gated.name, gate="*bank", **DUE)
    is_well("jobs.unpublished")
    Job.objects.update(gate="bank")
    is_about(asked("jobs.unpublished"), Level.FAIL, job, "manage.py sweep")


def test_published_and_never_claimed(acme: Workspace) -> None:
    job = queued(acme, run_at=ago(minutes=5), publishes=2)
    is_well("jobs.unclaimed")
    Job.objects.filter(pk=job.pk).update(publishes=3)
    helps = "celery -A config inspect active_queues"
    is_about(asked("jobs.unclaimed"), Level.WARN, job, helps)


def test_unstartable_for_a_while_and_for_too_long(acme: Workspace) -> None:
    job = queued(acme, wait_reason=WaitReason.UNSTARTABLE, wait_since=ago(minutes=10))
    is_about(asked("jobs.unstartable"), Level.WARN, job, "manage.py job show ID")
    Job.objects.filter(pk=job.pk).update(wait_since=ago(minutes=62))
    is_about(asked("jobs.unstartable"), Level.FAIL, job, "manage.py job show ID")


def test_past_its_deadline_and_not_buried(acme: Workspace) -> None:
    job = queued(acme, deadline_at=ago(seconds=30))
    is_well("jobs.deadline_passed")
    Job.objects.filter(pk=job.pk).update(deadline_at=ago(seconds=90))
    is_about(asked("jobs.deadline_passed"), Level.FAIL, job, "manage.py sweep")


def test_of_a_kind_that_this_code_does_not_know(acme: Workspace, tmp_path: Path) -> None:
    is_well("jobs.unknown_kind")
    job = queued(acme, kind="gone.kind")
    is_about(asked("jobs.unknown_kind"), Level.WARN, job, "manage.py job show ID")
    Job.objects.filter(pk=job.pk).update(kind="drills.noop")
    letter = dead(acme, tmp_path)
    Job.objects.filter(pk=letter.pk).update(kind="gone.kind")
    is_about(asked("jobs.unknown_kind"), Level.WARN, letter, "manage.py job show ID")
    Job.objects.filter(pk=letter.pk).update(resolved_at=ago(seconds=1))
    is_well("jobs.unknown_kind")


def test_behind_a_gate_that_stays_closed(acme: Workspace, tmp_path: Path) -> None:
    gates.close(acme.pk, "account:42", seconds=7200, reason="HTTP 429 from the bank")
    is_well("jobs.gate_closed")
    told = by_account.s(ledger=str(tmp_path / "l"), account="42")
    told.enqueue(workspace=acme, key="gated", countdown=3600)
    finding = asked("jobs.gate_closed")
    assert (finding.level, finding.rows) == (Level.WARN, ("account:42",))
    assert "HTTP 429 from the bank" in finding.sentence
    assert "open_again(WORKSPACE_ID, 'account:42')" in finding.command


def test_behind_an_operation_that_is_paused(acme: Workspace) -> None:
    rows(acme, 1)
    operation = draft(acme, "resume", actor=SYSTEM, matching=DEAD_ONES)
    is_well("operations.paused")
    with transaction.atomic():  # so that inline mode does not run it before it is paused
        start(operation.pk, actor=SYSTEM, reason=WHY)
        pause(operation.pk, actor=SYSTEM, reason="lunch")
    is_well("jobs.gate_closed")
    finding = asked("operations.paused")
    assert (finding.level, finding.rows) == (Level.WARN, (str(operation.pk),))
    assert "resume of 1 (the system: lunch)" in finding.sentence
    assert finding.command == f"manage.py job operation show {operation.pk}"


def test_waiting_for_a_lock_whose_holder_is_over(acme: Workspace, tmp_path: Path) -> None:
    queued(acme, wait_reason=WaitReason.LOCK)
    holder = uncertain(acme, tmp_path)
    is_well("jobs.lock_abandoned")
    Lock.objects.create(workspace=acme, name="stack:prod", job=holder, since=ago(hours=1))
    is_about(asked("jobs.lock_abandoned"), Level.WARN, holder, "manage.py job show ID")
    assert (
        "stack:prod, held by a job that is dead (uncertain)"
        in asked("jobs.lock_abandoned").sentence
    )


def test_many_rows_are_counted_and_five_are_named(acme: Workspace) -> None:
    jobs = [queued(acme, f"stuck-{n}", deadline_at=ago(minutes=2)) for n in range(7)]
    finding = asked("jobs.deadline_passed")
    assert finding.sentence.startswith("7 jobs: ")
    assert finding.rows == tuple(str(job.pk) for job in jobs[:5])


def test_nothing_of_this_is_said_of_jobs_that_wait_rightly_or_are_over(
    acme: Workspace, tmp_path: Path
) -> None:
    queued(acme, "waits", deadline_at=ahead(hours=5))
    running(acme, "runs")
    dead(acme, tmp_path)
    for code in ("unpublished", "unclaimed", "unstartable", "deadline_passed", "unknown_kind"):
        is_well(f"jobs.{code}")
