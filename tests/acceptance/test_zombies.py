"""A process is paused for longer than its lease, and wakes up when its job is another's."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from django.db.models.functions import Now

from jobs.models import Event, Job
from jobs.recovery.retry import retry
from tests.acceptance.stack import Stack, children
from tests.acceptance.watching import (
    all_ended,
    ended,
    hold_only,
    holding,
    kill,
    outcomes,
    paused,
    process_in,
    step_of,
)
from tests.drills.held import held, held_asking, held_once
from tests.drills.kinds import noop
from tests.drills.ledger import effects, pids
from tests.waiting import wait_until
from workspaces.actors import SYSTEM
from workspaces.models import Workspace


def test_what_a_zombie_writes_while_another_runs_its_job_is_void(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = held.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        zombie = process_in(ledger, "work")
        with paused(zombie):
            wait_until(lambda: outcomes(job) == ["lost"])
            successor = process_in(ledger, "work", count=2)
        hold_only(successor, ledger)
        wait_until(lambda: _said(stack, job, "job.lease_lost"), what="the zombie found out")
        job.refresh_from_db()
        assert (job.state, job.attempt) == ("running", 2)
        assert not job.steps.filter(name="work").exists()
    job = ended(job)
    assert (job.state, job.result) == ("succeeded", {"pid": successor})
    assert outcomes(job) == ["lost", "succeeded"]
    assert effects(ledger) == {"before": 1, "work": 2, "after": 1}


def test_what_a_zombie_writes_after_the_end_is_void(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with ExitStack() as until_the_end:
        with holding(ledger):
            job = held.s(ledger=ledger).enqueue(workspace=workspace, key="k")
            until_the_end.enter_context(paused(process_in(ledger, "work")))
            successor = process_in(ledger, "work", count=2)
        final = ended(job)
        assert (final.state, final.result) == ("succeeded", {"pid": successor})
        row = Job.objects.filter(pk=job.pk).values().get()
    wait_until(lambda: _said(stack, job, "job.lease_lost"), what="the zombie found out")
    assert Job.objects.filter(pk=job.pk).values().get() == row
    assert outcomes(job) == ["lost", "succeeded"]
    assert effects(ledger) == {"before": 1, "work": 2, "after": 1}


def test_the_late_output_of_a_once_step_is_kept_and_saves_the_retry(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = held_once.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        zombie = process_in(ledger, "pay")
        with paused(zombie):
            final = ended(job)
            assert (final.state, final.cause) == ("dead", "uncertain")
    wait_until(lambda: step_of(job, "pay").late_at is not None, what="late output is kept")
    assert step_of(job, "pay").late_output == {"pid": zombie}
    assert Job.objects.get(pk=job.pk).finished_at == final.finished_at
    assert Event.objects.filter(type="job.late_write", subject=str(job.pk)).count() == 1

    successor = ended(retry(job.pk, mode="resume", actor=SYSTEM, reason="its worker was late"))
    assert (successor.state, successor.result) == ("succeeded", {"pid": zombie})
    assert effects(ledger) == {"before": 1, "pay": 1, "after": 1}
    assert pids(ledger, "pay") == [zombie]


def test_a_provider_that_denies_is_not_believed_while_the_zombie_may_still_act(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    mine = Job.objects.filter(workspace=workspace)
    with holding(ledger):
        job = held_asking.s(ledger=ledger, early=True).enqueue(workspace=workspace, key="k")
        zombie = process_in(ledger, "before")
        wait_until(lambda: job.steps.filter(name="pay_or_ask").exists(), what="the intent")
        with paused(zombie):
            process_in(ledger, "asked")
            wait_until(lambda: mine.filter(wait_reason="deferred").exists(), what="it is put off")
            put_off = mine.filter(run_at__gt=Now() + timedelta(minutes=10)).get()
            assert (put_off.state, put_off.attempt) == ("queued", 2)
            assert outcomes(job) == ["lost"]
            assert effects(ledger) == {"before": 1, "asked": 1}
    wait_until(lambda: step_of(job, "pay_or_ask").late_at is not None, what="the zombie has paid")
    mine.update(run_at=Now(), wake_at=Now())
    final = ended(job)
    assert (final.state, final.result) == ("succeeded", {"pid": zombie})
    assert effects(ledger) == {"before": 1, "asked": 1, "pay": 1, "after": 1}


def test_a_provider_that_denies_is_believed_once_the_zombie_is_gone(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    mine = Job.objects.filter(workspace=workspace)
    with holding(ledger):
        job = held_asking.s(ledger=ledger, early=True).enqueue(workspace=workspace, key="k")
        zombie = process_in(ledger, "before")
        wait_until(lambda: job.steps.filter(name="pay_or_ask").exists(), what="the intent")
        with paused(zombie):
            wait_until(lambda: mine.filter(wait_reason="deferred").exists(), what="it is put off")
            kill(zombie)
    mine.update(run_at=Now(), wake_at=Now())
    assert ended(job).state == "succeeded"
    assert effects(ledger) == {"before": 1, "asked": 2, "pay": 1, "after": 1}
    assert zombie not in pids(ledger, "pay")


def test_what_was_handed_to_a_frozen_child_is_run_by_another(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    """Nobody notices such a child: it runs nothing, so no lease ends."""
    frozen, *others = children(stack.worker)
    ledgers = [str(tmp_path / str(number)) for number in range(1 + len(others))]
    mine = Job.objects.filter(workspace=workspace)
    with paused(frozen):
        with holding(*ledgers):
            jobs = [held.s(ledger=path).enqueue(workspace=workspace, key=path) for path in ledgers]
            wait_until(lambda: mine.filter(state="running").count() == len(others))
            stuck = mine.get(state="queued")
        mine.filter(pk=stuck.pk).update(wake_at=Now())  # as if half a minute had passed
        for job in all_ended(jobs):
            assert (job.state, outcomes(job)) == ("succeeded", ["succeeded"])
    ended(noop.s().enqueue(workspace=workspace, key="behind them"))
    assert all(effects(path) == {"before": 1, "work": 1, "after": 1} for path in ledgers)
    assert frozen in children(stack.worker)


def _said(stack: Stack, job: Job, event: str) -> bool:
    return any(
        line["event"] == event and line.get("job_id") == str(job.pk) for line in stack.lines()
    )
