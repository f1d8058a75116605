"""Webhooks through real workers and a real beat, counted at a real receiver."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
import trustme
from django.db import transaction
from django.db.models.functions import Now
from pytest_django import Settings

from jobs.events import emit
from jobs.models import Gate, Job
from jobs.sweep import SHARE_EVERY
from tests.acceptance.stack import Stack
from tests.acceptance.watching import kill, passes
from tests.integration.test_webhook_egress import OK, receiving, says, secured
from tests.support.receiver import Receiver, admitted
from tests.waiting import wait_until
from webhooks import endpoints
from webhooks.models import DeliveryAttempt, Endpoint, WebhookDelivery
from webhooks.shown import delivery_shown
from webhooks.states import FAST, SLOW
from workspaces import closing
from workspaces.actors import SYSTEM
from workspaces.models import Workspace


@pytest.fixture
def hook(settings: Settings) -> Iterator[Receiver]:
    with admitted(settings) as one:
        yield one


def endpoint(workspace: Workspace, hook: Receiver) -> Endpoint:
    return endpoints.create(workspace, url=hook.url, events=["*"], actor=SYSTEM)[0]


def tell(workspace: Workspace, count: int = 1) -> None:
    for number in range(count):
        with transaction.atomic():
            emit("job.retried", workspace, f"subject-{number}", {"kind": "drills.noop"})


def rows(workspace: Workspace, **where: str) -> list[WebhookDelivery]:
    found = WebhookDelivery.objects.filter(workspace=workspace, **where)
    return list(found.select_related("message").order_by("created_at", "pk"))


def due_now(workspace: Workspace) -> None:
    """The wait of what is to be tried again is over."""
    Job.objects.filter(workspace=workspace, state="queued").update(run_at=Now(), wake_at=Now())


def test_events_reach_the_receiver_by_themselves(
    stack: Stack, workspace: Workspace, hook: Receiver
) -> None:
    """Four at once, ten a second: what is published after the first answer comes in turns of four.

    24 messages are six turns, of which the first two may fall together where a worker is slow.
    """
    endpoint(workspace, hook)
    tell(workspace, 24)
    wait_until(lambda: len(rows(workspace, status="succeeded")) == 24, 60, "all are taken")
    assert len(set(hook.ids)) == len(hook.got) == 24
    assert hook.got[-1].at - hook.got[0].at >= 4 * SHARE_EVERY.total_seconds()
    assert hook.most_at_once <= 4


def test_a_worker_that_dies_between_the_request_and_its_record_sends_the_same_again(
    stack: Stack, workspace: Workspace, hook: Receiver
) -> None:
    """W-26."""
    endpoint(workspace, hook)
    hook.hold = threading.Event()
    hook.answers(200)
    try:
        tell(workspace)
        for number in (1, 2):
            wait_until(lambda n=number: len(hook.got) == n, 30, "it is being sent")  # type: ignore[misc]
            job = Job.objects.get(workspace=workspace)
            kill(int(job.worker.split("/")[3]))
            Job.objects.filter(pk=job.pk).update(lease_until=Now() - timedelta(seconds=1))
            again = Job.objects.filter(pk=job.pk, state="queued")
            wait_until(again.exists, 30, "the lost attempt is reaped")
            due_now(workspace)
    finally:
        hook.hold.set()
    wait_until(lambda: bool(rows(workspace, status="succeeded")), 30, "it is taken")
    assert len(hook.got) == 3
    assert len({(got.message_id, got.body) for got in hook.got}) == 1
    told = delivery_shown(rows(workspace)[0])
    assert [one["code"] for one in told["attempts"]] == ["unknown", "unknown", "ok"]


def test_what_waited_for_an_endpoint_is_sent_once_it_is_well(
    stack: Stack, workspace: Workspace, hook: Receiver
) -> None:
    """W-42, W-43."""
    one = endpoint(workspace, hook)
    hook.answers(400)
    tell(workspace)
    wait_until(lambda: bool(rows(workspace, status="dead")), 30, "the first is dead")
    tell(workspace, 6)
    passes(2)
    assert len(hook.got) == 1
    assert {job.attempt for job in Job.objects.filter(workspace=workspace, state="queued")} == {0}

    hook.answers(200)
    Gate.objects.filter(workspace=workspace).update(probe_at=Now())
    wait_until(lambda: len(rows(workspace, status="succeeded")) == 6, 30, "the rest is taken")
    oldest = rows(workspace, status="succeeded")[0]
    assert hook.got[1].message_id == oldest.message_id
    one.refresh_from_db()
    assert (one.state, one.lane, len(hook.got)) == ("active", "webhooks", 7)


def test_events_of_an_outage_of_the_broker_are_told_after_it(
    stack: Stack, workspace: Workspace, hook: Receiver
) -> None:
    """W-28."""
    endpoint(workspace, hook)
    stack.broker.kill()
    tell(workspace, 3)
    assert hook.got == []
    stack.broker.start()
    wait_until(lambda: len(rows(workspace, status="succeeded")) == 3, 90, "all are taken")
    assert len(hook.got) == 3


def test_a_real_worker_sends_nothing_to_a_certificate_that_nobody_vouches_for(
    stack: Stack, workspace: Workspace, settings: Settings
) -> None:
    """W-19, with the trust that a worker has."""
    certificate = trustme.CA().issue_cert("127.0.0.1")
    settings.WEBHOOK_ALLOW_HTTP = True  # any port, too
    with receiving(says(OK), secured(certificate)) as hostile:
        url = f"https://127.0.0.1:{hostile.port}/"
        endpoints.create(workspace, url=url, events=["*"], actor=SYSTEM)
        tell(workspace)
        wait_until(lambda: bool(rows(workspace, status="dead")), 30, "it is given up")
        assert (hostile.connections, hostile.requests) == (1, [])
    assert DeliveryAttempt.objects.get(delivery__workspace=workspace).code == "tls"


def test_a_workspace_that_closes_sends_nothing_more_and_leaves_nothing_behind(
    stack: Stack, workspace: Workspace, hook: Receiver, settings: Settings
) -> None:
    """One is being sent, some wait for their turn, one for its time, some behind a closed gate."""
    endpoint(workspace, hook)
    with admitted(settings) as other:
        other.answers(400)
        gated = endpoint(workspace, other)
        tell(workspace)
        wait_until(lambda: len(rows(workspace, status="dead")) == 1, 30, "the other one fails")
        hook.answers(500)
        tell(workspace)
        wait_until(lambda: len(hook.got) >= 2, 30, "it is to be tried again")
        hook.hold = threading.Event()
        try:
            tell(workspace, 8)
            wait_until(lambda: hook.at_once == 4, 30, "four are being sent")
            closing.close(workspace.pk, actor=SYSTEM, reason="they left")
            sent = (len(hook.got), len(other.got))
        finally:
            hook.hold.set()
        mine = Job.objects.filter(workspace=workspace, kind="webhooks.deliver")
        wait_until(lambda: not mine.exclude(finished_at__isnull=False).exists(), 30, "all ended")
        tell(workspace)
        passes(2)
        assert (len(hook.got), len(other.got)) == sent
    gated.refresh_from_db()
    assert (gated.state, gated.reason) == ("disabled", "workspace_closed")
    assert not rows(workspace, status="open")
    assert not Gate.objects.filter(workspace=workspace).exists()
    assert not [
        line
        for line in stack.lines()
        if line.get("workspace") == workspace.pk and "exception" in line
    ]


@pytest.fixture
def a_worker_for_each_lane(stack: Stack) -> Iterator[None]:
    """As a deployment has them: known ones and slow ones share no process."""
    stack.worker.stop()
    workers = [stack.start_worker(lane, queue=lane) for lane in (FAST, SLOW)]
    yield
    for worker in workers:
        worker.stop()


@pytest.mark.usefixtures("a_worker_for_each_lane")
def test_one_that_hangs_keeps_no_other_waiting(
    stack: Stack, workspace: Workspace, hook: Receiver, settings: Settings
) -> None:
    """W-50: all of the other's are taken before the first request to it has run out of time."""
    hangs = endpoint(workspace, hook)
    hook.hold = threading.Event()
    try:
        with admitted(settings) as other:
            well = endpoint(workspace, other)
            Endpoint.objects.filter(pk=well.pk).update(lane=FAST)
            tell(workspace, 4)
            wait_until(lambda: hook.at_once == 4, 60, "it holds all the requests that it may")
            tell(workspace, 12)
            taken = WebhookDelivery.objects.filter(endpoint=well, status="succeeded")
            wait_until(lambda: taken.count() == 16, 60, "the other has all of its own")
            assert not DeliveryAttempt.objects.filter(delivery__endpoint=hangs).exists()
            assert (hook.at_once, len(hook.got), len(set(other.ids))) == (4, 4, 16)
    finally:
        hook.hold.set()
