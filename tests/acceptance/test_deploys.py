"""Old and new code run side by side, and code runs before its tables are there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from django.db import connection
from django.db.models.functions import Now

from jobs.models import Job
from tests.acceptance.stack import Stack, is_alive
from tests.acceptance.watching import all_ended, message, outcomes
from tests.drills.ledger import effects
from tests.servers import Server
from tests.waiting import wait_until
from workspaces.models import Workspace

VIRTUAL_HOST = 7
NEXT = {"FIREDOOR_EXTRA_APPS": "tests.newer"}


def test_what_only_the_next_release_can_run_waits_for_it(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    jobs = _enqueued_by_the_next(stack, workspace, ledger)
    waiting = Job.objects.filter(workspace=workspace, wait_reason="unstartable")
    Job.objects.filter(pk=jobs[0].pk).update(wake_at=Now())
    wait_until(lambda: waiting.count() == 2, what="the release before it cannot start two")
    with _beside(stack, stack.start_beat("next-beat", **NEXT)):
        with _beside(stack, stack.start_worker("next", **NEXT)):
            stack.worker.stop()
            stack.beat.stop()
            waiting.update(run_at=Now(), wake_at=Now())
            done = all_ended(jobs)
    assert [(job.state, outcomes(job), job.failures) for job in done] == [
        ("succeeded", ["succeeded"], 0)
    ] * 3
    assert effects(ledger) == {"added": 1, "blue": 1, "grey": 1}


def test_a_worker_and_a_beat_that_were_started_before_the_tables_work_once_these_are_there(
    stack: Stack,
) -> None:
    elsewhere = _empty_installation(stack)
    with (
        _beside(stack, stack.start_worker("early", **elsewhere)) as worker,
        _beside(stack, stack.start_beat("early-beat", **elsewhere)) as beat,
    ):
        wait_until(lambda: "beat.not_migrated" in beat.log())
        with redis.Redis(
            unix_socket_path=stack.broker.url.partition("://")[2], db=VIRTUAL_HOST
        ) as wire:
            wire.lpush("default", message("drills.noop", [[str(uuid.uuid4())], {}, {}]))
        wait_until(lambda: "ProgrammingError" in worker.log(), what="it met a missing table")
        assert (is_alive(worker), is_alive(beat)) == (True, True)
        assert "Traceback" not in beat.log()
        stack.manage("migrate", "--verbosity", "0", **elsewhere)
        told = stack.manage("shell", "-v0", "-c", _FIRST_JOB, **elsewhere)
    assert told == "succeeded, attempt 1\n"


_FIRST_JOB = """
from jobs.models import Job
from tests.acceptance.watching import ended
from tests.drills.kinds import noop
from workspaces.models import Workspace
acme = Workspace.objects.create(slug="acme", name="Acme")
job = ended(noop.s().enqueue(workspace=acme, key="first"))
print(f"{job.state}, attempt {job.attempt}")
"""
_NEW_JOBS = """
from jobs.enqueue import enqueue
from tests.newer.kinds import added, grown
for number, job in enumerate(
    (added.s(ledger="LEDGER"), grown.s(ledger="LEDGER", colour="blue"), grown.s(ledger="LEDGER"))
):
    print(job.enqueue(workspace="WORKSPACE", key=str(number)).pk)
"""


def _enqueued_by_the_next(stack: Stack, workspace: Workspace, ledger: str) -> list[Job]:
    """Jobs that the next release's own code enqueued: what is new in it, and what is not."""
    code = _NEW_JOBS.replace("LEDGER", ledger).replace("WORKSPACE", workspace.slug)
    told = stack.manage("shell", "-v0", "-c", code, **NEXT)
    return [Job.objects.get(pk=line) for line in told.split()]


@contextmanager
def _beside(stack: Stack, process: Server) -> Iterator[Server]:
    """Let a process run beside the stack's own for the block."""
    try:
        yield process
    finally:
        process.stop()


def _empty_installation(stack: Stack) -> dict[str, str]:
    """The environment of another installation on the same servers, whose database is empty."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE fresh")
    return {
        "DATABASE_URL": stack.database.url.replace("/firedoor?", "/fresh?"),
        "REDIS_URL": f"{stack.broker.url}?virtual_host={VIRTUAL_HOST}",
    }
