"""What Celery keeps of failed messages is evidence: it is there, and no job depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from celery import current_app
from django.db import connection, transaction
from django.db.models.functions import Now
from django_celery_results.models import TaskResult

from jobs import tasks
from jobs.models import Attempt, Job
from jobs.recovery.retry import retry
from tests.acceptance.stack import Stack
from tests.acceptance.watching import ended, holding, outcomes
from tests.drills.held import stubborn_job
from tests.drills.kinds import kills_itself, noop
from tests.waiting import wait_until
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

TABLE = "django_celery_results_taskresult"


def kept(what: str, job: Job | None = None) -> int:
    """How many failures of a sort are kept, of all messages or of one job's."""
    rows = TaskResult.objects.filter(status="FAILURE", result__contains=what)
    return (rows.filter(task_args__contains=str(job.pk)) if job else rows).count()


def test_each_sort_of_failed_message_is_kept(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    unknown = kept("NotRegistered")
    job = ended(kills_itself.s(ledger=ledger).enqueue(workspace=workspace, key="kills"))
    current_app.send_task("nobody.knows", queue="default")
    wait_until(lambda: kept("NotRegistered") == unknown + 1)
    wait_until(lambda: kept("WorkerLostError", job) == 3)


@pytest.mark.timeout(240)
def test_a_worker_goes_on_keeping_them_after_a_restart_of_the_database(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        first = ended(stubborn_job.s(ledger=ledger).enqueue(workspace=workspace, key="1"), 60)
    wait_until(lambda: kept("exc_type", first) == 2)
    stack.database.stop()
    connection.close()
    stack.database.start()
    with holding(ledger):
        second = ended(stubborn_job.s(ledger=ledger).enqueue(workspace=workspace, key="2"), 90)
    assert outcomes(first) == outcomes(second) == ["timed_out", "timed_out"]
    wait_until(lambda: kept("exc_type", second) == 2)


@pytest.mark.timeout(240)
def test_a_message_whose_job_could_not_be_claimed_is_kept_and_the_job_still_runs(
    stack: Stack, workspace: Workspace
) -> None:
    job = noop.s().enqueue(workspace=workspace, key="locked", countdown=3600)
    Job.objects.filter(pk=job.pk).update(run_at=Now())  # due, but nobody is woken for it
    with impatient_sessions(), transaction.atomic():
        Job.objects.select_for_update().get(pk=job.pk)
        tasks.send([(job.pk, job.kind)])
        wait_until(lambda: kept("ClaimUnavailable", job), 120, "the message gave up")
    assert Job.objects.get(pk=job.pk).attempt == 0
    Job.objects.filter(pk=job.pk).update(wake_at=Now())
    assert ended(job).state == "succeeded"


def test_no_job_is_hurt_when_they_cannot_be_kept_and_nothing_changes_when_they_go(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    kills = kills_itself.s(ledger=ledger).enqueue(workspace=workspace, key="kills")
    with away(TABLE):
        current_app.send_task("nobody.knows", queue="default")
        current_app.send_task("drills.noop", args=("no id",), queue="default")
        lost = ended(kills, 60)
        fine = ended(noop.s().enqueue(workspace=workspace, key="fine"))
    assert (lost.cause, outcomes(lost)) == ("lost", ["lost", "lost", "lost"])
    assert fine.state == "succeeded"
    records = [list(rows.order_by("pk").values()) for rows in (Job.objects, Attempt.objects)]
    TaskResult.objects.all().delete()
    assert records == [
        list(rows.order_by("pk").values()) for rows in (Job.objects, Attempt.objects)
    ]
    again = retry(lost.pk, mode="resume", actor=SYSTEM, reason="the workers are well")
    assert ended(again, 60).cause == "lost"


@contextmanager
def away(table: str) -> Iterator[None]:
    """Take a table away while the block lasts."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {table}_away")
        try:
            yield
        finally:
            cursor.execute(f"ALTER TABLE {table}_away RENAME TO {table}")


@contextmanager
def impatient_sessions() -> Iterator[None]:
    """Let new sessions wait 200 ms for a lock while the block lasts, and make all others new."""
    name = connection.settings_dict["NAME"]
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} SET lock_timeout = '200ms'")
        cursor.execute(_END_OTHERS, [name])
        try:
            yield
        finally:
            cursor.execute(f"ALTER DATABASE {name} RESET lock_timeout")
            cursor.execute(_END_OTHERS, [name])


_END_OTHERS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = %s AND pid <> pg_backend_pid()"""
