"""Doubled messages, lost messages, many operators, many beats: nothing is done twice or lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from django.db import connection
from django.db.models.functions import Now

from jobs import tasks
from jobs.enqueue import enqueue
from jobs.models import Event, Job
from jobs.recovery.retry import retry
from tests.acceptance.stack import Stack
from tests.acceptance.watching import all_ended, ended, holding, kill, outcomes, process_in, taken
from tests.drills.held import held
from tests.drills.kinds import noop, repeatable
from tests.drills.ledger import effects
from tests.waiting import wait_until
from workspaces.actors import SYSTEM
from workspaces.models import Workspace


def test_one_message_twenty_times_is_one_attempt_and_one_effect(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = held.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        tasks.send([(job.pk, job.kind)] * 20)
        process_in(ledger, "work")
        taken(stack)
    job = ended(job)
    tasks.send([(job.pk, job.kind)] * 20)
    taken(stack)
    ended(noop.s().enqueue(workspace=workspace, key="behind them"))
    assert (job.state, job.attempt, outcomes(job)) == ("succeeded", 1, ["succeeded"])
    assert effects(ledger) == {"before": 1, "work": 1, "after": 1}


def test_a_message_that_claims_nothing_says_nothing(stack: Stack, workspace: Workspace) -> None:
    job = ended(noop.s().enqueue(workspace=workspace, key="k"))
    tasks.send([(job.pk, job.kind)] * 5)
    taken(stack)
    ended(noop.s().enqueue(workspace=workspace, key="behind them"))
    said = [line for line in stack.lines() if str(job.pk) in str(line)]
    assert [line["event"] for line in said] == ["job.attempt_closed"]


def test_two_hundred_queued_jobs_survive_a_broker_that_forgets_everything(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    stack.worker.stop()
    ledger = str(tmp_path / "ledger")
    jobs = [
        repeatable.s(ledger=ledger).enqueue(workspace=workspace, key=f"{number}")
        for number in range(200)
    ]
    with stack.wire() as wire:
        assert wire.llen("default") >= 200
        wire.flushall()
    stack.worker = stack.start_worker()
    done = all_ended(jobs, 90)
    assert {(job.state, job.attempt) for job in done} == {("succeeded", 1)}
    assert effects(ledger) == {"first": 200, "second": 200}


def test_sixteen_operators_who_retry_one_job_get_one_successor(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    params = {"ledger": ledger, "fault": "terminal", "once_file": f"{ledger}.struck"}
    dead = ended(enqueue("drills.repeatable", workspace=workspace, key="k", params=params))
    assert (dead.state, dead.cause) == ("dead", "terminal")
    line = threading.Barrier(16)

    def operate(number: int) -> Job:
        try:
            line.wait(20)
            return retry(dead.pk, mode="resume", actor=SYSTEM, reason=f"operator {number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(16) as operators:
        successors = list(operators.map(operate, range(16)))
    assert len({successor.pk for successor in successors}) == 1
    assert sum(successor.created for successor in successors) == 1
    assert Job.objects.filter(root_id=dead.root_id).count() == 2
    assert ended(successors[0]).state == "succeeded"
    assert effects(ledger) == {"first": 2, "second": 1}


def test_three_beats_double_nothing(stack: Stack, workspace: Workspace, tmp_path: Path) -> None:
    others = [stack.start_beat("second-beat"), stack.start_beat("third-beat")]
    try:
        ledgers = [str(tmp_path / str(number)) for number in range(20)]
        delayed = [
            repeatable.s(ledger=path).enqueue(workspace=workspace, key=path, countdown=2)
            for path in ledgers
        ]
        lost = str(tmp_path / "lost")
        with holding(lost):
            job = held.s(ledger=lost).enqueue(workspace=workspace, key="lost")
            kill(process_in(lost, "work"))
        params = {"ledger": str(tmp_path / "dead"), "fault": "terminal"}
        dead = enqueue("drills.repeatable", workspace=workspace, key="dead", params=params)
        done = all_ended([*delayed, job, dead])
    finally:
        for beat in others:
            beat.stop()
    assert {(each.publishes, outcomes(each)[0]) for each in done if each in delayed} == {
        (1, "succeeded")
    }
    assert all(effects(path) == {"first": 1, "second": 1} for path in ledgers)
    assert outcomes(job) == ["lost", "succeeded"]
    assert Event.objects.filter(workspace=workspace, type="job.dead").count() == 1


def test_what_nobody_woke_while_no_beat_ran_runs_once_one_is_back(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    lost, later = str(tmp_path / "lost"), str(tmp_path / "later")
    with holding(lost):
        held.s(ledger=lost).enqueue(workspace=workspace, key="its worker dies")
        kill(process_in(lost, "work"))
        repeatable.s(ledger=later).enqueue(workspace=workspace, key="later", countdown=1)
        stack.beat.kill()
        due = Job.objects.filter(workspace=workspace, state="queued", run_at__lt=Now())
        over = Job.objects.filter(workspace=workspace, state="running", lease_until__lt=Now())
        wait_until(lambda: due.exists() and over.exists(), what="both need a beat")
    assert ended(noop.s().enqueue(workspace=workspace, key="new")).state == "succeeded"
    assert (due.count(), over.count()) == (1, 1), "nobody but a beat helps these two"
    stack.beat = stack.start_beat()
    done = all_ended(list(Job.objects.filter(workspace=workspace)))
    assert {job.state for job in done} == {"succeeded"}
    assert effects(lost) == {"before": 1, "work": 2, "after": 1}
    assert effects(later) == {"first": 1, "second": 1}
