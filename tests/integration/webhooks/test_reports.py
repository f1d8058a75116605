"""What Sentry hears of deliveries: faults of ours, and not that somebody's receiver is down."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import sentry_sdk
from django.db.models.functions import Now

from jobs.models import Job
from jobs.sweep import sweep
from tests.integration.kernel.scene import started
from tests.integration.webhooks.scene import (
    alert,
    attempts,
    delivery,
    endpoint,
    failing,
    job_of,
    tell,
)
from tests.support.receiver import Receiver
from tests.support.sentry import Sentry, sentry
from webhooks import kinds
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


@pytest.fixture
def reports() -> Iterator[Sentry]:
    """A Sentry that this thread reports to."""
    with sentry() as told, sentry_sdk.new_scope() as scope:
        scope.set_client(sentry_sdk.Client(dsn=told.dsn, default_integrations=False))
        yield told


def heard(reports: Sentry) -> list[str]:
    """The messages of all reports."""
    sentry_sdk.flush()
    return [event["message"] for event in reports.events]


@pytest.mark.parametrize("answer", [400, 500])
def test_a_receiver_that_takes_nothing_is_an_alert_and_no_report(
    acme: Workspace,
    hook: Receiver,
    reports: Sentry,
    answer: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint(acme, hook)
    hook.answers(answer)
    tell(acme)
    caplog.set_level("INFO")
    assert attempts(delivery()).status == "dead"
    assert heard(reports) == []
    assert alert().count == 1
    (line,) = [record for record in caplog.records if record.message == "job.dead"]
    assert line.levelname == "INFO"


def test_what_waited_in_vain_is_no_report(acme: Workspace, hook: Receiver, reports: Sentry) -> None:
    failing(acme, endpoint(acme, hook), hook)
    tell(acme)
    Job.objects.filter(state="queued").update(deadline_at=Now() - timedelta(seconds=1))
    sweep()
    assert Job.objects.filter(cause="deadline").count() == 1
    assert heard(reports) == []


def test_a_fault_of_ours_is_one(
    acme: Workspace, hook: Receiver, reports: Sentry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise KeyError("ours")

    endpoint(acme, hook)
    monkeypatch.setattr(kinds, "send", breaks)
    tell(acme)
    assert attempts(delivery()).status == "dead"
    assert heard(reports) == ["webhooks.deliver failed: KeyError"]


def test_workers_that_are_lost_again_and_again_are_one(
    acme: Workspace, hook: Receiver, reports: Sentry
) -> None:
    endpoint(acme, hook)
    tell(acme)
    mine = delivery()
    for _ in range(3):
        Job.objects.update(run_at=Now())
        started(job_of(mine), lease=-1)
        sweep(reap_now=True)
    mine.refresh_from_db()
    assert mine.status == "dead"
    assert heard(reports) == ["webhooks.deliver used up its retries"]
