"""A job runs longer than its lease, or longer than it may."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from django.db import connection
from django.db.models.functions import Now

from jobs.models import Attempt, Job
from tests.acceptance.stack import Stack, is_alive
from tests.acceptance.watching import all_ended, ended, holding, outcomes, process_in
from tests.drills.held import held, slow, stubborn_job, stubborn_once
from tests.drills.in_sql import in_sql
from tests.drills.ledger import effects, pids
from tests.waiting import wait_until
from workspaces.models import Workspace


def test_a_job_that_runs_longer_than_its_lease_keeps_it(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = held.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        process_in(ledger, "work")
        long_ago = Now() - timedelta(seconds=8)
        mine = Job.objects.filter(pk=job.pk)
        wait_until(lambda: mine.filter(started_at__lt=long_ago).exists())
        assert mine.filter(state="running", lease_until__gt=Now()).exists()
    job = ended(job)
    assert (job.state, job.losses, outcomes(job)) == ("succeeded", 0, ["succeeded"])
    assert effects(ledger) == {"before": 1, "work": 1, "after": 1}


def test_a_soft_time_limit_ends_the_attempt_and_the_job_is_retried(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = slow.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        wait_until(lambda: outcomes(job) == ["timed_out"])
    job = ended(job)
    assert (job.state, job.failures) == ("succeeded", 1)
    assert outcomes(job) == ["timed_out", "succeeded"]
    attempt = Attempt.objects.get(job=job, number=1)
    assert (attempt.classification, attempt.reason) == ("retry", "soft_time_limit")
    assert attempt.step == "work"


def test_a_soft_time_limit_strikes_although_the_broker_was_lost_meanwhile(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = slow.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        process_in(ledger, "work")
        stack.broker.kill()
        stack.broker.start()
        wait_until(lambda: outcomes(job) == ["timed_out"], what="the limit was not forgotten")
    assert ended(job).state == "succeeded"


def test_a_soft_time_limit_uses_up_the_retries_and_spares_the_process(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = ended(slow.s(ledger=ledger).enqueue(workspace=workspace, key="k"))
    assert (job.state, job.cause, job.failures) == ("dead", "exhausted", 2)
    assert outcomes(job) == ["timed_out", "timed_out"]
    assert all(_runs(pid) for pid in pids(ledger, "work"))


def test_a_hard_time_limit_kills_the_process_and_uses_up_the_retries(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = ended(stubborn_job.s(ledger=ledger).enqueue(workspace=workspace, key="k"))
    assert (job.state, job.cause) == ("dead", "exhausted")
    assert (job.failures, job.losses) == (2, 0)
    assert outcomes(job) == ["timed_out", "timed_out"]
    killed = pids(ledger, "stubborn")
    assert len(set(killed)) == 2
    assert not any(_runs(pid) for pid in killed)
    assert is_alive(stack.worker)


def test_a_hard_time_limit_inside_a_once_step_ends_uncertain(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = ended(stubborn_once.s(ledger=ledger).enqueue(workspace=workspace, key="k"))
    assert (job.state, job.cause) == ("dead", "uncertain")
    assert outcomes(job)[0] == "timed_out"
    assert effects(ledger) == {"pay": 1}


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


LOCAL = [False, True]  # a local step holds its job's row while it works


def test_a_soft_time_limit_strikes_inside_sql_too(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    ledgers = [str(tmp_path / str(local)) for local in LOCAL]
    jobs = _in_sql(workspace, ledgers, stubborn=False)
    for ledger, job in zip(ledgers, jobs, strict=True):
        wait_until(Attempt.objects.filter(job=job).exists, what=f"{job} timed out")
        Path(f"{ledger}.hold").unlink()
    for job in all_ended(jobs):
        assert (job.state, job.failures, job.losses) == ("succeeded", 1, 0)
        assert outcomes(job) == ["timed_out", "succeeded"]
        assert Attempt.objects.get(job=job, number=1).reason == "soft_time_limit"
    assert _sleepers() == 0


def test_a_hard_time_limit_strikes_inside_sql_and_frees_what_the_query_held(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    ledgers = [str(tmp_path / str(local)) for local in LOCAL]
    jobs = _in_sql(workspace, ledgers, stubborn=True)
    for job in all_ended(jobs, 45):
        assert (job.state, job.cause, job.losses) == ("dead", "exhausted", 0)
        assert outcomes(job) == ["timed_out", "timed_out"]
    wait_until(lambda: _sleepers() == 0, what="no query goes on for a process that is gone")
    assert is_alive(stack.worker)


def _in_sql(workspace: Workspace, ledgers: list[str], *, stubborn: bool) -> list[Job]:
    """One job in a repeatable step and one in a local step, each in the middle of its query."""
    for ledger in ledgers:
        Path(f"{ledger}.hold").touch()
    jobs = [
        in_sql.s(ledger=ledger, local=local, stubborn=stubborn).enqueue(
            workspace=workspace, key=ledger
        )
        for ledger, local in zip(ledgers, LOCAL, strict=True)
    ]
    for ledger in ledgers:
        process_in(ledger, "query")
    return jobs


def _sleepers() -> int:
    """How many sessions are in the drills' long query."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
            " AND query LIKE 'SELECT pg_sleep%%' AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])
