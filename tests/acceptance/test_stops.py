"""A worker is told to stop, as every deployment does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models.functions import Now

from jobs.models import Job
from tests.acceptance.stack import Stack, is_alive
from tests.acceptance.watching import (
    all_busy,
    all_ended,
    ended,
    held_by_workers,
    holding,
    outcomes,
    process_in,
)
from tests.drills.held import held
from tests.drills.kinds import noop, repeatable
from tests.drills.ledger import effects, pids
from tests.waiting import wait_until
from workspaces.models import Workspace

HOUR = timedelta(hours=1)


def test_a_worker_that_is_told_to_stop_gives_its_job_back_at_the_next_step(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = held.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        process_in(ledger, "work")
        os.kill(stack.worker.pid, signal.SIGTERM)
        wait_until(lambda: "shutdown" in stack.worker.log())
    stack.worker.stop()
    stack.worker = stack.start_worker()
    job = ended(job)
    assert (job.state, job.failures, job.losses, job.deferrals) == ("succeeded", 0, 0, 1)
    assert outcomes(job) == ["succeeded"]
    assert effects(ledger) == {"before": 1, "work": 1, "after": 1}


@pytest.mark.parametrize(
    ("number", "send"),
    [
        pytest.param(signal.SIGTERM, os.killpg, id="SIGTERM to the whole group"),
        pytest.param(signal.SIGQUIT, os.kill, id="SIGQUIT to the worker"),
    ],
)
def test_a_stop_that_strikes_inside_a_step_uses_no_budget(
    stack: Stack,
    workspace: Workspace,
    ledger: str,
    number: signal.Signals,
    send: Callable[[int, int], None],
) -> None:
    with holding(ledger):
        job = held.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        process_in(ledger, "work")
        worker = stack.worker
        send(worker.pid, number)
        wait_until(lambda: not is_alive(worker), what="the worker ends although its step holds")
    stack.worker = stack.start_worker()
    job = ended(job)
    assert (job.state, job.failures, job.losses, job.deferrals) == ("succeeded", 0, 0, 1)
    assert outcomes(job) == ["succeeded"]
    assert effects(ledger) == {"before": 1, "work": 2, "after": 1}


def test_a_handler_that_exits_fails_once_and_its_worker_lives(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    jobs = [
        repeatable.s(ledger=ledger, fault=fault).enqueue(workspace=workspace, key=fault)
        for fault in ("exit", "none")
    ]
    exits, _ = all_ended(jobs)
    row = exits.attempts.get()
    told = (exits.state, exits.cause, exits.losses, row.error_class, row.reason)
    assert told == ("dead", "terminal", 0, "SystemExit", "exited")
    log = stack.worker.log()
    assert "EncodeError" not in log
    assert "WorkerLostError" not in log


def test_a_worker_that_stops_gives_back_the_messages_it_had_not_begun(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    with all_busy(workspace, tmp_path) as busy, stack.wire() as wire:
        jobs = [noop.s().enqueue(workspace=workspace, key=f"next-{n}") for n in range(4)]
        # The upkeep pass wakes none of them meanwhile.
        Job.objects.filter(pk__in=[job.pk for job in jobs]).update(wake_at=Now() + HOUR)
        wait_until(lambda: held_by_workers("reserved") == len(jobs), 60, "all are taken")
        assert wire.llen("default") == 0
        os.kill(stack.worker.pid, signal.SIGTERM)
        wait_until(lambda: "shutdown" in stack.worker.log())
    stack.worker.stop()
    stack.worker = stack.start_worker()
    assert {(job.state, job.attempt) for job in all_ended(jobs)} == {("succeeded", 1)}
    assert {job.state for job in all_ended(busy)} == {"succeeded"}


def test_children_that_start_slowly_replace_those_that_are_used_up(
    stack: Stack, workspace: Workspace
) -> None:
    stack.worker.stop()
    words = ["worker", "--loglevel", "INFO", "--concurrency", "1", "--max-tasks-per-child", "1"]
    apps = "tests.drills,tests.sluggish"
    slow = stack._started(
        "slow", [*words, "--hostname", "slow@%h"], ready=" ready.", FIREDOOR_EXTRA_APPS=apps
    )
    try:
        jobs = [noop.s().enqueue(workspace=workspace, key=str(n)) for n in range(2)]
        assert {job.state for job in all_ended(jobs)} == {"succeeded"}
    finally:
        slow.stop()


def test_a_child_that_has_grown_is_replaced_after_its_job_and_none_is_lost(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    stack.worker.stop()
    words = ["worker", "--loglevel", "INFO", "--concurrency", "2", "--max-memory-per-child", "1"]
    small = stack._started("small", [*words, "--hostname", "small@%h"], ready=" ready.")
    try:
        paths = [str(tmp_path / str(number)) for number in range(5)]
        jobs = [held.s(ledger=path).enqueue(workspace=workspace, key=path) for path in paths]
        for job in all_ended(jobs):
            assert (job.state, outcomes(job)) == ("succeeded", ["succeeded"])
        assert len({pids(path, "work")[0] for path in paths}) == len(jobs), "a child ran one job"
    finally:
        small.stop()
