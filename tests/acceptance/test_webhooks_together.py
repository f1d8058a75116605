"""Deliveries that share a message, whose child dies, stops or hangs in the midst of it."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from typing import Any

import pytest
from celery import current_app
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from jobs.events import emit
from jobs.models import Job
from tests.acceptance.stack import Stack
from tests.acceptance.watching import kill
from tests.support.receiver import Got, Receiver, Says, admitted
from tests.waiting import wait_until
from webhooks import endpoints
from webhooks.models import DeliveryAttempt, Endpoint, WebhookDelivery
from webhooks.states import FAST, SLOW
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

ENDPOINTS, EVENTS = 16, 4
ALL = ENDPOINTS * EVENTS
FIRST_WAKE = timedelta(seconds=30)
HOUR = timedelta(hours=1)


@dataclass
class Midway:
    """A receiver that does not answer what ``holds`` says, given the job and its child's count."""

    hook: Receiver
    holds: Callable[[Job, int], bool]
    held: dict[int, Job] = field(default_factory=dict)
    go: threading.Event = field(default_factory=threading.Event)
    counts: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.taken = self.hook.take
        self.hook.take = self.take  # type: ignore[method-assign]

    def take(self, got: Got) -> Says:
        said = self.taken(got)
        try:
            job = job_of(got)
        finally:
            connection.close()  # this thread's own
        pid = child_of(job)
        self.counts[pid] += 1
        if self.holds(job, self.counts[pid]):
            self.held[pid] = job
            self.go.wait(60)
        return said


@pytest.fixture
def hook(settings: Settings) -> Iterator[Receiver]:
    with admitted(settings) as one:
        yield one


@pytest.fixture
def second(hook: Receiver) -> Iterator[Midway]:
    """Each child's second request is held: the second of its message."""
    midway = Midway(hook, lambda _job, count: count == 2)
    yield midway
    midway.go.set()


def job_of(got: Got) -> Job:
    mine = WebhookDelivery.objects.filter(message_id=got.message_id)
    one = mine.get(endpoint__url__endswith=got.path)
    assert one.job_id is not None
    return Job.objects.get(pk=one.job_id)


def child_of(job: Job) -> int:
    return int(job.worker.split("/")[3])


def known(workspace: Workspace, hook: Receiver, name: str, event: str) -> Endpoint:
    """An endpoint that is in the fast lane, and that its path tells from others."""
    url = f"http://127.0.0.1:{hook.port}/{name}"
    one = endpoints.create(workspace, url=url, events=[event], actor=SYSTEM)[0]
    Endpoint.objects.filter(pk=one.pk).update(lane=FAST)
    return one


def all_known(workspace: Workspace, hook: Receiver) -> None:
    for number in range(ENDPOINTS):
        known(workspace, hook, f"{number}-", "job.retried")


def told(workspace: Workspace, *more: str) -> None:
    """Deliveries that become due together, enough that four share a message."""
    with transaction.atomic():
        for event in [*more, *["job.retried"] * EVENTS]:
            emit(event, workspace, "subject", {"kind": "drills.noop"})


def jobs(workspace: Workspace) -> Any:
    return Job.objects.filter(workspace=workspace, kind="webhooks.deliver")


def taken(workspace: Workspace, count: int) -> None:
    rows = WebhookDelivery.objects.filter(workspace=workspace, status="succeeded")
    wait_until(lambda: rows.count() == count, 90, f"{count} are taken")


def messages() -> dict[int, list[str]]:
    """The ids in the message that each child is at."""
    found: dict[int, list[str]] = {}
    with current_app.connection_for_read() as link:
        answers = current_app.control.inspect(timeout=2, connection=link).active() or {}
    for entry in chain.from_iterable(answers.values()):
        found[entry["worker_pid"]] = list(entry["args"])
    return found


def in_the_midst(second: Midway) -> tuple[int, Job, list[Job]]:
    """A child that has done one of its message and is at another; those it has not begun."""
    wait_until(lambda: len(second.held) == 4, 60, "all children are at their second")
    for pid, ids in messages().items():
        place = ids.index(str(second.held[pid].pk))
        if 0 < place < len(ids) - 1:
            return pid, second.held[pid], list(Job.objects.filter(pk__in=ids[place + 1 :]))
    raise AssertionError(f"nobody is in the midst of a message: {messages()}, {second.held}")


def test_a_child_that_is_killed_in_mid_message_loses_none_and_asks_three_times_at_most(
    stack: Stack, workspace: Workspace, hook: Receiver, second: Midway
) -> None:
    """W-26: the one it was at is asked again, with its id; those not begun cost no attempt."""
    all_known(workspace, hook)
    told(workspace)
    pid, poison, rest = in_the_midst(second)
    kill(pid)
    second.holds = lambda job, _count: job.pk == poison.pk
    second.go.set()
    taken(workspace, ALL - 1 - len(rest))
    waiting = jobs(workspace).filter(pk__in=[job.pk for job in rest], state="queued", attempt=0)
    assert waiting.filter(wake_at__lte=Now() + FIRST_WAKE).count() == len(rest) >= 1
    waiting.update(wake_at=Now())
    taken(workspace, ALL - 1)

    second.go.clear()
    for number in (2, 3):
        mine = jobs(workspace).filter(pk=poison.pk)
        mine.update(lease_until=Now() - timedelta(seconds=1))
        wait_until(mine.filter(state="queued").exists, 30, "the lost attempt is reaped")
        second.held.clear()
        mine.update(run_at=Now(), wake_at=Now())
        wait_until(lambda: second.held, 30, f"it is sent for the {number}. time")
        kill(child_of(mine.get()))
    mine.update(lease_until=Now() - timedelta(seconds=1))
    wait_until(mine.filter(state="dead").exists, 30, "it has been tried three times")

    requests = Counter((got.path, got.message_id, got.body) for got in hook.got)
    assert sorted(requests.values()) == [1] * (ALL - 1) + [3]
    others = jobs(workspace).exclude(pk=poison.pk)
    assert set(others.values_list("state", "attempt", "losses")) == {("succeeded", 1, 0)}
    assert (mine.get().cause, mine.get().attempt) == ("exhausted", 3)


def test_a_worker_that_stops_in_mid_message_gives_the_rest_of_it_back(
    stack: Stack, workspace: Workspace, hook: Receiver, second: Midway
) -> None:
    all_known(workspace, hook)
    told(workspace)
    wait_until(lambda: len(second.held) == 4, 60, "all children are at their second")
    # The upkeep pass wakes none of them meanwhile.
    jobs(workspace).filter(state="queued").update(wake_at=Now() + HOUR)
    os.kill(stack.worker.pid, signal.SIGTERM)
    wait_until(lambda: "shutdown" in stack.worker.log())
    second.go.set()
    stack.worker.stop()
    assert len(hook.got) == 8, "four children ended what they were at, and began nothing"
    stack.worker = stack.start_worker()
    taken(workspace, ALL)
    assert len({(got.path, got.message_id) for got in hook.got}) == len(hook.got) == ALL
    assert set(jobs(workspace).values_list("attempt", "losses", "deferrals")) == {(1, 0, 0)}


def test_who_follows_one_that_hangs_in_its_message_waits_for_its_time_and_no_longer(
    stack: Stack, workspace: Workspace, hook: Receiver
) -> None:
    """It runs out of time, and what is behind it is given back: ADR 30."""
    hangs = known(workspace, hook, "hangs", "job.resolved")
    all_known(workspace, hook)
    midway = Midway(hook, lambda job, _count: job.gate == hangs.gate)
    try:
        told(workspace, "job.resolved")
        wait_until(lambda: midway.held, 60, "it hangs")
        ((pid, job),) = midway.held.items()
        ids = messages()[pid]
        behind = ids[ids.index(str(job.pk)) + 1 :]
        assert behind
        jobs(workspace).filter(state="queued").update(wake_at=Now() + HOUR)
        taken(workspace, ALL - len(behind))
        assert not DeliveryAttempt.objects.filter(delivery__endpoint=hangs).exists()
        begun = jobs(workspace).filter(pk__in=behind).exclude(attempt=0, state="queued")
        assert not begun.exists()
        taken(workspace, ALL)
        assert DeliveryAttempt.objects.get(delivery__endpoint=hangs).code == "timeout"
    finally:
        midway.go.set()
    mine = jobs(workspace).get(pk=job.pk)
    assert (mine.state, mine.failures, mine.queue) == ("queued", 1, SLOW)
    assert set(jobs(workspace).values_list("attempt", flat=True)) == {1}
    assert len({(got.path, got.message_id) for got in hook.got}) == len(hook.got) == ALL + 1
