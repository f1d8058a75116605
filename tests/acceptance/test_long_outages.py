"""The broker or the database is away, or full, for so long that something must give way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from celery import current_app
from django.db import connection
from django.db.models.functions import Now

from jobs.models import Job
from tests.acceptance.stack import Stack, is_alive
from tests.acceptance.watching import (
    all_ended,
    ended,
    held_by_workers,
    holding,
    outcomes,
    process_in,
    taken,
)
from tests.drills.held import LEASE, held, held_once
from tests.drills.kinds import noop, repeatable
from tests.drills.ledger import effects
from tests.waiting import wait_until
from workspaces.models import Workspace


def test_a_database_that_is_away_for_longer_than_a_lease_costs_no_running_job_anything(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    through, once, after = (str(tmp_path / name) for name in ("through", "once", "after"))
    with holding(after):
        with holding(through, once):
            jobs = [
                held.s(ledger=through).enqueue(workspace=workspace, key="returns meanwhile"),
                held_once.s(ledger=once).enqueue(workspace=workspace, key="pays meanwhile"),
                held.s(ledger=after).enqueue(workspace=workspace, key="goes on"),
            ]
            for ledger, what in ((through, "work"), (once, "pay"), (after, "work")):
                process_in(ledger, what)
            stack.database.kill()
        away = time.monotonic()
        wait_until(lambda: time.monotonic() - away > 2 * LEASE.total_seconds())
        stack.database.start()
        connection.close()
        for job in jobs[:2]:
            ended(job)
    for job in all_ended(jobs):
        assert (job.state, job.losses, job.failures) == ("succeeded", 0, 0)
        assert outcomes(job) == ["succeeded"]
    assert effects(through) == effects(after) == {"before": 1, "work": 1, "after": 1}
    assert effects(once) == {"before": 1, "pay": 1, "after": 1}


def test_a_broker_that_restarts_under_load_loses_no_job_and_doubles_none(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    worker = stack.worker.pid
    mine = Job.objects.filter(workspace=workspace)
    for batch in range(3):
        for number in range(40):
            repeatable.s(ledger=ledger).enqueue(workspace=workspace, key=f"{batch}-{number}")
        stack.broker.kill()
        repeatable.s(ledger=ledger).enqueue(workspace=workspace, key=f"{batch}-meanwhile")
        stack.broker.start()
    assert mine.filter(state="queued").exists(), "the load outlasted the restarts"
    mine.filter(state="queued").update(wake_at=Now())
    done = all_ended(list(mine))
    assert {(job.state, job.attempt, job.losses) for job in done} == {("succeeded", 1, 0)}
    assert effects(ledger) == {"first": 123, "second": 123}
    assert (stack.worker.pid, is_alive(stack.worker)) == (worker, True)


def test_a_full_broker_stops_no_worker_and_what_is_enqueued_meanwhile_runs_later(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    worker, noticed = stack.worker.pid, stack.beat.log().count("broker.unreachable")
    ledgers = [str(tmp_path / str(number)) for number in range(4)]
    with holding(*ledgers):
        jobs = [held.s(ledger=path).enqueue(workspace=workspace, key=path) for path in ledgers]
        for path in ledgers:
            process_in(path, "work")
        queued = [noop.s().enqueue(workspace=workspace, key=f"before-{n}") for n in range(10)]
        with full(stack):
            meanwhile = noop.s().enqueue(workspace=workspace, key="meanwhile")
            Job.objects.filter(pk=meanwhile.pk).update(wake_at=Now())
            wait_until(lambda: stack.beat.log().count("broker.unreachable") > noticed)
            for path in ledgers:
                Path(f"{path}.hold").write_text("0")
            for job in all_ended([*jobs, *queued]):
                assert (job.state, outcomes(job)) == ("succeeded", ["succeeded"])
            assert Job.objects.get(pk=meanwhile.pk).state == "queued"
    assert ended(meanwhile).state == "succeeded"
    assert (stack.worker.pid, is_alive(stack.worker)) == (worker, True)
    taken(stack)


def test_a_broker_that_drops_while_a_message_is_held_leaves_the_worker_alive(
    stack: Stack, workspace: Workspace
) -> None:
    """Celery 5.7.0 exits here; a newer one may be pinned once this holds with it."""
    worker = stack.worker.pid
    job = noop.s().enqueue(workspace=workspace, key="k", countdown=3600)
    current_app.tasks[job.kind].apply_async((str(job.pk),), countdown=3600)
    wait_until(lambda: held_by_workers("scheduled"), 60, "the message is held")
    stack.broker.kill()
    wait_until(lambda: "Cannot connect to redis" in stack.worker.log())
    stack.broker.start()
    Job.objects.filter(pk=job.pk).update(run_at=Now(), wake_at=Now())
    assert ended(job, 60).state == "succeeded"
    assert (stack.worker.pid, is_alive(stack.worker)) == (worker, True)


def test_a_worker_that_stops_while_the_broker_is_away_says_what_it_could_not_give_back(
    stack: Stack, workspace: Workspace
) -> None:
    """And writes no message into a file, as kombu does."""
    job = noop.s().enqueue(workspace=workspace, key="k", countdown=3600)
    current_app.tasks[job.kind].apply_async((str(job.pk),), countdown=3600)
    wait_until(lambda: held_by_workers("scheduled"), 60, "the message is held")
    stack.broker.kill()
    stack.worker.stop()
    stack.broker.start()
    said = stack.worker.log()
    stack.worker = stack.start_worker()
    assert "broker.not_given_back" in said
    assert "EMERGENCY" not in said


@contextmanager
def full(stack: Stack) -> Iterator[None]:
    """Let the broker refuse whatever would need memory."""
    with stack.wire() as wire:
        wire.config_set("maxmemory", "1")
        try:
            yield
        finally:
            wire.config_set("maxmemory", "0")


def test_a_broker_that_is_a_replica_for_a_while_stops_no_worker(
    stack: Stack, workspace: Workspace
) -> None:
    """As after a failover, until the address leads to the new master."""
    worker, lost = stack.worker.pid, stack.worker.log().count("Connection to broker lost")
    with stack.wire() as wire:
        wire.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            wait_until(lambda: stack.worker.log().count("Connection to broker lost") > lost)
            job = noop.s().enqueue(workspace=workspace, key="meanwhile")
        finally:
            wire.execute_command("REPLICAOF", "NO", "ONE")
    Job.objects.filter(pk=job.pk).update(wake_at=Now())
    assert ended(job).state == "succeeded"
    assert (stack.worker.pid, is_alive(stack.worker)) == (worker, True)
