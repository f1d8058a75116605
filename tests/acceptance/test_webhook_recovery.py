"""A recovery of webhooks among real workers, one of which is killed. Counted at the receiver."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from jobs.models import Job, Operation, OperationItem
from tests.acceptance.stack import Stack
from tests.support.missed import missed
from tests.support.receiver import Receiver, admitted
from tests.waiting import wait_until
from webhooks import endpoints
from webhooks.models import Endpoint, WebhookDelivery
from webhooks.recover import recover
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

MANY = 80


@pytest.fixture
def hook(settings: Settings) -> Iterator[Receiver]:
    with admitted(settings) as one:
        yield one


def outcomes(operation: Operation) -> Counter[str]:
    rows = OperationItem.objects.filter(operation=operation)
    return Counter(rows.values_list("outcome", flat=True))


def engine_of(operation: Operation) -> Job:
    operation.refresh_from_db()
    assert operation.job_id is not None
    return Job.objects.get(pk=operation.job_id)


def kill_its_worker(operation: Operation) -> None:
    """SIGKILL the process that does the items, in the midst of it; its lease is over at once."""
    wait_until(lambda: _killed_in_the_midst(operation), 60, "somebody does the items")
    Job.objects.filter(pk=engine_of(operation).pk, state="running").update(
        lease_until=Now() - timedelta(seconds=1)
    )


def _killed_in_the_midst(operation: Operation) -> bool:
    """Between two turns nobody does them: so it is held still, looked at again, and then killed."""
    seen = engine_of(operation)
    if seen.state != "running":
        return False
    pid = int(seen.worker.split("/")[3])
    os.kill(pid, signal.SIGSTOP)
    held = engine_of(operation)
    same = (held.state, held.attempt) == ("running", seen.attempt)
    os.kill(pid, signal.SIGKILL if same else signal.SIGCONT)
    return same


def jobs_of(endpoint: Endpoint) -> Counter[str]:
    """How many jobs each delivery had."""
    rows = Job.objects.filter(gate=endpoint.gate).values_list("params", flat=True)
    return Counter(params["delivery_id"] for params in rows)


def test_a_recovery_whose_worker_is_killed_sends_each_once(
    stack: Stack, workspace: Workspace, hook: Receiver
) -> None:
    """W-65."""
    one = endpoints.create(workspace, url=hook.url, events=["job.dead"], actor=SYSTEM)[0]
    missed(workspace, one, MANY)
    since = timezone.now() - timedelta(hours=2)
    found = recover(one.pk, since=since, actor=SYSTEM, reason="the receiver is mended")
    operation = found.operation
    assert (operation.selected, found.left) == (MANY, 0)
    wait_until(lambda: outcomes(operation)["done"] >= MANY // 4, 60, "it is in the middle")
    kill_its_worker(operation)
    finished = Operation.objects.filter(pk=operation.pk, state="finished")
    wait_until(finished.exists, 120, "it has finished")
    taken = WebhookDelivery.objects.filter(endpoint=one, status="succeeded")
    wait_until(lambda: taken.count() == MANY, 120, "all are taken")

    assert outcomes(operation) == {"done": MANY}
    engine = engine_of(operation)
    assert (engine.state, engine.result) == (
        "succeeded",
        {"pending": 0, "done": MANY, "skipped": 0, "failed": 0},
    )
    assert engine.losses >= 1, "its worker was lost in the middle"
    assert set(jobs_of(one).values()) == {2}, "the dead one and one successor"
    assert Counter(hook.ids).most_common(1)[0][1] == 1
    assert len(hook.got) == MANY
    assert not WebhookDelivery.objects.filter(endpoint=one).exclude(sends=2).exists()
