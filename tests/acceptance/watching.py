"""What the tests wait for, and what they read of a job."""

from __future__ import annotations

import base64
import json
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from celery import current_app

from jobs.models import Attempt, Job, Step, Upkeep
from jobs.states import FINAL
from jobs.sweep import UPKEEP
from tests.acceptance.stack import Stack
from tests.drills.held import held
from tests.drills.ledger import pids
from tests.waiting import wait_until
from workspaces.models import Workspace


def ended(job: Job, seconds: float = 30) -> Job:
    """The job once it is final."""
    wait_until(lambda: Job.objects.get(pk=job.pk).final, seconds, f"{job} is final")
    return Job.objects.get(pk=job.pk)


def all_ended(jobs: list[Job], seconds: float = 60) -> list[Job]:
    """The jobs once all are final."""
    rows = Job.objects.filter(pk__in=[job.pk for job in jobs])
    final = rows.filter(state__in=FINAL)
    wait_until(lambda: final.count() == len(jobs), seconds, f"{len(jobs)} jobs are final")
    return list(rows)


def outcomes(job: Job) -> list[str]:
    """How each attempt ended, in order."""
    rows = Attempt.objects.filter(job_id=job.pk).order_by("number")
    return list(rows.values_list("outcome", flat=True))


def step_of(job: Job, name: str) -> Step:
    return Step.objects.get(job_id=job.pk, name=name)


def passes(count: int) -> None:
    """Return once beat has made so many more upkeep passes, whole ones."""
    for _ in range(count + 1):  # the first one seen may have begun before
        last = Upkeep.objects.get(name=UPKEEP).passed_at
        later = Upkeep.objects.filter(name=UPKEEP, passed_at__gt=last)
        wait_until(later.exists, what="an upkeep pass")


def taken(stack: Stack) -> None:
    """Return once the worker has taken every message there is, and begun all it took."""
    with stack.wire() as wire:
        wait_until(lambda: not wire.llen("default") and held_by_workers("reserved") == 0, 60)


def held_by_workers(how: str) -> int | None:
    """How many messages workers hold in memory: ``reserved``, or ``scheduled`` for later.

    None where no worker has answered: it may be busy. Every call has a connection of its own,
    since the broker may have been started anew.
    """
    with current_app.connection_for_read() as link:
        inspect = current_app.control.inspect(timeout=2, connection=link)
        answers: dict[str, list[object]] | None = getattr(inspect, how)()
    return None if answers is None else sum(map(len, answers.values()))


@contextmanager
def all_busy(workspace: Workspace, folder: Path) -> Iterator[list[Job]]:
    """The jobs that hold every child of the worker while the block lasts."""
    ledgers = [str(folder / str(number)) for number in range(4)]
    with holding(*ledgers):
        busy = [held.s(ledger=path).enqueue(workspace=workspace, key=path) for path in ledgers]
        for path in ledgers:
            process_in(path, "work")
        yield busy


@contextmanager
def holding(*ledgers: str) -> Iterator[None]:
    """Let the drills' steps hold while the block lasts, and no longer."""
    markers = [Path(f"{ledger}.hold") for ledger in ledgers]
    try:
        for marker in markers:
            marker.touch()
        yield
    finally:
        for marker in markers:
            marker.unlink()


def hold_only(pid: int, ledger: str) -> None:
    """Let everybody who holds go on, but for one process."""
    Path(f"{ledger}.hold").write_text(str(pid))


def process_in(ledger: str, what: str, count: int = 1) -> int:
    """The process that did an effect for the ``count``-th time, once it has."""
    wait_until(lambda: len(pids(ledger, what)) >= count, what=f"{what} happened {count} times")
    return pids(ledger, what)[count - 1]


@contextmanager
def paused(*pids: int) -> Iterator[None]:
    """SIGSTOP, and SIGCONT after the block: whoever was paused goes on as if nothing was."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def kill(pid: int) -> None:
    """SIGKILL, as the kernel does when memory runs out."""
    os.kill(pid, signal.SIGKILL)


def message(task: str, body: object) -> str:
    """A message as it lies in the broker's list."""
    text = body if isinstance(body, str) else json.dumps(body)
    name = str(uuid.uuid4())
    return json.dumps(
        {
            "body": base64.b64encode(text.encode()).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {"lang": "py", "task": task, "id": name, "root_id": name},
            "properties": {
                "correlation_id": name,
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": "default"},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": str(uuid.uuid4()),
            },
        }
    )
