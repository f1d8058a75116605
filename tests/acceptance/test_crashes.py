"""A process dies by SIGKILL in the middle of a job; what was finished is not done again."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db.models.functions import Now

from alerts.models import Alert
from jobs.errors import ReconcileRequired
from jobs.models import Job
from jobs.recovery.reconcile import reconcile
from jobs.recovery.retry import retry
from tests.acceptance.stack import Stack, children, is_alive
from tests.acceptance.watching import (
    all_busy,
    all_ended,
    ended,
    held_by_workers,
    holding,
    kill,
    outcomes,
    process_in,
    step_of,
)
from tests.drills.held import held, held_asking, held_once
from tests.drills.kinds import kills_itself, noop
from tests.drills.ledger import effects, pids
from tests.waiting import wait_until
from workspaces.actors import SYSTEM
from workspaces.models import Workspace


def test_a_repeatable_step_whose_process_died_runs_again_and_finished_steps_do_not(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = held.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        kill(process_in(ledger, "work"))
    job = ended(job)
    assert (job.state, job.losses, job.failures) == ("succeeded", 1, 0)
    assert outcomes(job) == ["lost", "succeeded"]
    assert effects(ledger) == {"before": 1, "work": 2, "after": 1}
    assert job.result == {"pid": pids(ledger, "work")[1]}


def test_a_once_step_whose_process_died_ends_uncertain_and_is_never_done_again_blindly(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = held_once.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        kill(process_in(ledger, "pay"))
    job = ended(job)
    assert (job.state, job.cause) == ("dead", "uncertain")
    assert outcomes(job)[0] == "lost"
    assert effects(ledger) == {"before": 1, "pay": 1}
    assert Alert.objects.get(workspace=workspace).severity == "critical"

    with pytest.raises(ReconcileRequired, match="pay"):
        retry(job.pk, mode="resume", actor=SYSTEM, reason="try it")
    with pytest.raises(ReconcileRequired):
        retry(job.pk, mode="restart", actor=SYSTEM, reason="try it")
    assert not Job.objects.filter(retry_of=job).exists()


def test_a_resume_after_a_reconcile_goes_on_behind_the_step_that_happened(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    job = _uncertain(workspace, ledger)
    _observe(job, "happened", {"pid": 42})
    successor = ended(retry(job.pk, mode="resume", actor=SYSTEM, reason="reconciled"))
    assert (successor.state, successor.result) == ("succeeded", {"pid": 42})
    assert effects(ledger) == {"before": 1, "pay": 1, "after": 1}


def test_a_resume_after_a_reconcile_does_the_step_that_did_not_happen(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    job = _uncertain(workspace, ledger)
    _observe(job, "did_not_happen")
    successor = ended(retry(job.pk, mode="resume", actor=SYSTEM, reason="reconciled"))
    assert successor.state == "succeeded"
    assert effects(ledger) == {"before": 1, "pay": 2, "after": 1}


def _uncertain(workspace: Workspace, ledger: str) -> Job:
    with holding(ledger):
        job = held_once.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        kill(process_in(ledger, "pay"))
    return ended(job)


def _observe(job: Job, outcome: str, output: object = None) -> None:
    said = "I read the bank's statement"
    reconcile(job.pk, step="pay", outcome=outcome, output=output, actor=SYSTEM, reason=said)


@pytest.mark.parametrize("early", [False, True], ids=["after its effect", "before its effect"])
def test_a_once_step_that_can_be_asked_is_done_once_whenever_its_process_dies(
    stack: Stack, workspace: Workspace, ledger: str, early: bool
) -> None:
    with holding(ledger):
        job = held_asking.s(ledger=ledger, early=early).enqueue(workspace=workspace, key="k")
        worker = process_in(ledger, "before")
        wait_until(lambda: job.steps.filter(name="pay_or_ask").exists(), what="the intent")
        if not early:
            process_in(ledger, "pay")
        kill(worker)
    job = ended(job)
    assert (job.state, outcomes(job)) == ("succeeded", ["lost", "succeeded"])
    assert effects(ledger) == {"before": 1, "asked": 1, "pay": 1, "after": 1}
    assert step_of(job, "pay_or_ask").attempt == 2


def test_a_job_that_kills_its_worker_each_time_dies_while_others_keep_flowing(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    poison = kills_itself.s(ledger=ledger).enqueue(workspace=workspace, key="poison")
    flowed = 0
    while not Job.objects.get(pk=poison.pk).final:
        job = noop.s().enqueue(workspace=workspace, key=f"other-{flowed}")
        assert ended(job, 15).state == "succeeded"
        flowed += 1
    poison = ended(poison)
    assert (poison.state, poison.cause) == ("dead", "lost")
    assert outcomes(poison) == ["lost"] * 3
    assert len(pids(ledger, "killed")) == len(set(pids(ledger, "killed"))) == 3
    assert flowed > 3
    assert is_alive(stack.worker)
    assert Alert.objects.get(workspace=workspace).state == "open"


def test_when_a_whole_worker_dies_another_finishes_its_jobs_after_their_lease(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    ledgers = [str(tmp_path / name) for name in "abc"]
    with holding(*ledgers):
        for path in ledgers:
            held.s(ledger=path).enqueue(workspace=workspace, key=path)
        dead = {process_in(path, "work") for path in ledgers}
        assert dead <= set(children(stack.worker))
        stack.worker.kill()
    stack.worker = stack.start_worker()
    jobs = all_ended(list(Job.objects.filter(workspace=workspace)))
    assert [(job.state, job.losses) for job in jobs] == [("succeeded", 1)] * 3
    assert not dead & {job.result["pid"] for job in jobs if job.result}
    for path in ledgers:
        assert effects(path) == {"before": 1, "work": 2, "after": 1}


def test_what_a_killed_worker_had_taken_and_not_begun_is_woken_again(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    with all_busy(workspace, tmp_path) as busy, stack.wire() as wire:
        jobs = [noop.s().enqueue(workspace=workspace, key=f"next-{n}") for n in range(4)]
        wait_until(lambda: held_by_workers("reserved") == len(jobs), 60, "all are taken")
        stack.worker.kill()
        assert wire.llen("default") == 0, "their messages died with it"
        # As if half a minute had passed since they were enqueued.
        Job.objects.filter(pk__in=[job.pk for job in jobs]).update(wake_at=Now())
    stack.worker = stack.start_worker()
    assert {(job.state, job.attempt) for job in all_ended(jobs)} == {("succeeded", 1)}
    assert {job.state for job in all_ended(busy)} == {"succeeded"}
