"""What is pruned, and what never is."""

import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from jobs import runner
from jobs.models import Attempt, Event, Job, Lock, Step
from jobs.recovery.resolve import resolve
from jobs.recovery.retry import retry
from jobs.retention import prune
from tests.drills.kinds import repeatable
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


@pytest.fixture
def workspace() -> Workspace:
    return Workspace.objects.create(slug=f"w{uuid.uuid4().hex[:8]}", name="W")


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


def ended(workspace: Workspace, ledger: str, fault: str = "none") -> Job:
    job = repeatable.s(ledger=ledger, fault=fault).enqueue(
        workspace=workspace, key=uuid.uuid4().hex
    )
    return run(job)


def run(job: Job) -> Job:
    runner.execute(job.kind, job.pk)  # claims nothing where inline mode has run it already
    job.refresh_from_db()
    assert job.final
    return job


def age(days: int) -> None:
    """Let everything that is final have ended ``days`` ago."""
    then = Now() - timedelta(days=days)
    Job.objects.filter(finished_at__isnull=False).update(finished_at=then)
    Job.objects.filter(resolved_at__isnull=False).update(resolved_at=then)


def test_a_success_is_kept_thirty_days(workspace: Workspace, ledger: str) -> None:
    job = ended(workspace, ledger)
    age(29)
    assert prune() == 0
    age(31)
    assert prune() == 1
    assert not Job.objects.filter(pk=job.pk).exists()
    assert not Step.objects.exists()
    assert not Attempt.objects.exists()


def test_where_nothing_is_old_all_jobs_are_looked_at_once(
    workspace: Workspace, ledger: str
) -> None:
    """Not once for each kind: among a million that took seconds, in which nothing else was done."""
    ended(workspace, ledger)
    with CaptureQueriesContext(connection) as queries:
        assert prune() == 0
    assert len([query for query in queries if '"jobs_job"' in query["sql"]]) == 1


def test_an_unresolved_dead_letter_is_never_pruned(workspace: Workspace, ledger: str) -> None:
    ended(workspace, ledger, "terminal")
    age(10_000)
    assert prune() == 0


def test_a_resolved_one_is_kept_a_hundred_and_eighty_days(
    workspace: Workspace, ledger: str
) -> None:
    job = ended(workspace, ledger, "terminal")
    resolve(job.pk, actor=SYSTEM, reason="not needed any more")
    age(179)
    assert prune() == 0
    age(181)
    assert prune() == 1


def test_a_chain_goes_as_a_whole_by_its_newest_job(workspace: Workspace, ledger: str) -> None:
    once = f"{ledger}.once"
    job = repeatable.s(ledger=ledger, fault="terminal", once_file=once).enqueue(
        workspace=workspace, key="a"
    )
    successor = retry(run(job).pk, mode="resume", actor=SYSTEM, reason="the provider was mended")
    Job.objects.filter(pk=job.pk).update(finished_at=Now() - timedelta(days=400))
    assert run(successor).state == "succeeded"
    assert prune() == 0, "the newest job of the chain ended just now"
    age(31)
    assert prune() == 2


def test_a_chain_that_holds_a_lock_stays(workspace: Workspace, ledger: str) -> None:
    job = ended(workspace, ledger)
    Lock.objects.create(workspace=workspace, name="stack", job=job, since=Now(), keep=True)
    age(10_000)
    assert prune() == 0


def test_delivered_events_go_and_undelivered_ones_stay(workspace: Workspace) -> None:
    long_ago = Now() - timedelta(days=31)
    said = {"workspace": workspace, "type": "job.dead", "subject": "x", "data": {}}
    Event.objects.create(delivered_at=long_ago, tries=1, error="", **said)
    waiting = Event.objects.create(tries=1, error="", **said)
    Event.objects.update(created_at=long_ago)
    prune()
    assert list(Event.objects.all()) == [waiting]
