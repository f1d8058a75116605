"""The broker or the database is away for a while; nothing is lost and nobody hangs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from django.db import connection
from django.db.models.functions import Now

from jobs import publish, tasks
from jobs.enqueue import enqueue_many
from jobs.models import Job
from tests.acceptance.stack import Stack, children, is_alive
from tests.acceptance.watching import all_ended, ended, holding, outcomes, process_in
from tests.drills.held import held, held_failing, patient
from tests.drills.kinds import noop, repeatable
from tests.drills.ledger import effects
from tests.waiting import wait_until
from workspaces.models import Workspace

PATIENCE = 2.0  # seconds: what is promised to callers, and so the one time that is asserted


@contextmanager
def down(stack: Stack) -> Iterator[None]:
    stack.broker.kill()
    yield
    stack.broker.start()


@contextmanager
def frozen(stack: Stack) -> Iterator[None]:
    stack.broker.freeze()
    yield
    stack.broker.thaw()


@pytest.mark.parametrize("outage", [down, frozen])
def test_enqueueing_without_a_broker_neither_hangs_nor_fails_and_the_job_runs_later(
    stack: Stack,
    workspace: Workspace,
    ledger: str,
    outage: Callable[[Stack], AbstractContextManager[None]],
) -> None:
    noticed = stack.beat.log().count("broker.unreachable")
    with outage(stack):
        begun = time.monotonic()
        job = repeatable.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        assert time.monotonic() - begun < PATIENCE
        publish._Broker.skip_until = 0.0
        begun = time.monotonic()
        jobs = enqueue_many([(noop.s(), str(n)) for n in range(200)], workspace=workspace)
        assert time.monotonic() - begun < PATIENCE
        again = repeatable.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        assert (again.pk, again.created) == (job.pk, False)
        Job.objects.filter(workspace=workspace).update(wake_at=Now())
        wait_until(lambda: stack.beat.log().count("broker.unreachable") > noticed)
    for each in all_ended([job, *jobs]):
        assert (each.state, each.attempt) == ("succeeded", 1)
    assert effects(ledger) == {"first": 1, "second": 1}


def test_a_worker_outlives_its_broker_and_so_do_its_jobs(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    worker, connected = stack.worker.pid, stack.worker.log().count("Connected to")
    with holding(ledger):
        job = held.s(ledger=ledger).enqueue(workspace=workspace, key="running")
        process_in(ledger, "work")
        with down(stack):
            pass
        wait_until(lambda: stack.worker.log().count("Connected to") > connected)
        following = [noop.s().enqueue(workspace=workspace, key=f"{n}") for n in range(6)]
        for each in all_ended(following, 20):  # sooner than a second wake: none waits for the job
            assert (each.state, each.publishes) == ("succeeded", 0)
    assert ended(job).state == "succeeded"
    assert outcomes(job) == ["succeeded"]
    assert (stack.worker.pid, is_alive(stack.worker)) == (worker, True)


@pytest.mark.parametrize("after_an_outage", [False, True])
def test_a_child_that_replaces_another_keeps_no_connection_that_its_main_process_polls(
    stack: Stack, workspace: Workspace, after_an_outage: bool
) -> None:
    """With a copy of it alive, a broken one cannot be taken out of the main process' loop."""
    if after_an_outage:
        _outage(stack)
    first = set(children(stack.worker))
    for pid in first:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(made := set(children(stack.worker))) == len(first) and not made & first)
    jobs = [noop.s().enqueue(workspace=workspace, key=f"{n}") for n in range(6)]
    assert {each.state for each in all_ended(jobs, 20)} == {"succeeded"}
    polled = _polled(stack.worker.pid) & _sockets(stack.worker.pid)
    assert polled
    wait_until(lambda: not any(polled & _sockets(pid) for pid in children(stack.worker)))
    _outage(stack)
    jobs = [noop.s().enqueue(workspace=workspace, key=f"after-{n}") for n in range(6)]
    assert {each.state for each in all_ended(jobs, 20)} == {"succeeded"}


def _outage(stack: Stack) -> None:
    """The broker goes and comes back, and the worker has seen it."""
    connected = stack.worker.log().count("Connected to")
    with down(stack):
        pass
    wait_until(lambda: stack.worker.log().count("Connected to") > connected)


def _polled(pid: int) -> set[int]:
    """The inodes of all that a process' event loops look at."""
    lines = [line for info in Path(f"/proc/{pid}/fdinfo").iterdir() for line in _lines(info)]
    return {int(line.split("ino:")[1].split()[0], 16) for line in lines if line.startswith("tfd:")}


def _lines(info: Path) -> list[str]:
    try:
        return info.read_text().splitlines()
    except OSError:  # closed meanwhile
        return []


def _sockets(pid: int) -> set[int]:
    """The inodes of the sockets that a process has open."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            kind, _, number = os.readlink(entry).partition(":")
            if kind == "socket":
                found.add(int(number.strip("[]")))
    return found


def test_a_job_that_fails_while_the_broker_is_away_is_retried_when_it_is_back(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = held_failing.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        process_in(ledger, "work")
        stack.broker.kill()
    wait_until(lambda: outcomes(job) == ["failed"])
    stack.broker.start()
    assert ended(job).state == "succeeded"
    assert outcomes(job) == ["failed", "succeeded"]


def test_connections_cut_while_idle_cost_no_job_an_attempt(
    stack: Stack, workspace: Workspace
) -> None:
    _run_some(workspace, "before")
    assert _cut() > 0
    for job in _run_some(workspace, "after"):
        assert (job.state, job.attempt) == ("succeeded", 1)


def test_connections_cut_under_running_jobs_cost_them_no_attempt(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    ledgers = [str(tmp_path / name) for name in "abc"]
    with holding(*ledgers):
        jobs = [held.s(ledger=path).enqueue(workspace=workspace, key=path) for path in ledgers]
        for path in ledgers:
            process_in(path, "work")
        assert _cut() > 0
    for job in all_ended(jobs):
        assert (job.state, outcomes(job)) == ("succeeded", ["succeeded"])
    for path in ledgers:
        assert effects(path) == {"before": 1, "work": 1, "after": 1}


def test_a_database_that_restarts_under_a_job_costs_it_no_attempt(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    with holding(ledger):
        job = patient.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        process_in(ledger, "work")
        stack.database.kill()
    stack.database.start()
    connection.close()
    job = ended(job)
    assert (job.state, outcomes(job)) == ("succeeded", ["succeeded"])
    assert effects(ledger) == {"before": 1, "work": 1}
    assert ended(noop.s().enqueue(workspace=workspace, key="next")).state == "succeeded"


def test_a_message_that_comes_while_the_database_is_away_is_tried_again(
    stack: Stack, workspace: Workspace
) -> None:
    stack.beat.stop()  # nobody else would wake the job
    job = noop.s().enqueue(workspace=workspace, key="k", countdown=0.01)
    stack.database.stop()
    tasks.send([(job.pk, job.kind)])
    wait_until(lambda: "job.claim_unavailable" in stack.worker.log())
    stack.database.start()
    connection.close()
    job = ended(job)
    assert (job.state, job.attempt) == ("succeeded", 1)


def _run_some(workspace: Workspace, word: str) -> list[Job]:
    jobs = [noop.s().enqueue(workspace=workspace, key=f"{word}-{n}") for n in range(12)]
    return all_ended(jobs)


def _wake_now(job: Job) -> None:
    """Make the next wake due, which is 30 s after the first one."""
    Job.objects.filter(pk=job.pk).update(wake_at=Now())


def _cut() -> int:
    """Terminate every other connection, as a failover does; how many there were."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])
