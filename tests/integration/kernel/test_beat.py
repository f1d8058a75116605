"""The beat scheduler runs one upkeep pass a tick, and nothing that happens in it ends beat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from celery import current_app
from django.db import OperationalError, connection
from django.db.models.functions import Now

from jobs import beat
from jobs.beat import UpkeepScheduler
from jobs.enqueue import enqueue_many
from jobs.models import Job, Upkeep
from jobs.sweep import SHARE_EVERY, SHARES, UPKEEP, fault, fill_shares
from tests.drills.kinds import gated, noop, shared
from tests.integration.kernel.acting import claimed_elsewhere, expired, waiting
from tests.integration.kernel.sessions import cut_off
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)

YEAR = timedelta(days=365)


@pytest.fixture
def scheduler() -> UpkeepScheduler:
    scheduler = UpkeepScheduler(app=current_app, lazy=True)
    scheduler.setup_schedule()
    return scheduler


@pytest.fixture
def faults() -> Iterator[list[tuple[str, str]]]:
    """What went wrong, as whoever keeps a list of it is told."""
    seen: list[tuple[str, str]] = []

    def note(sender: object, work: str, error: Exception, **_: Any) -> None:
        seen.append((work, str(error)))

    fault.connect(note)
    yield seen
    fault.disconnect(note)


def lost(acme: Workspace, key: str = "a") -> Job:
    return expired(claimed_elsewhere(waiting(noop.s(), acme, key)))


def test_a_tick_is_a_pass_and_the_next_is_a_second_later(
    acme: Workspace, scheduler: UpkeepScheduler
) -> None:
    job = lost(acme)
    assert [scheduler.tick(), scheduler.tick()] == [1.0, 1.0]
    first = Upkeep.objects.get(name=UPKEEP).passed_at
    expired(job)
    scheduler.tick()
    job.refresh_from_db()
    assert (job.state, job.losses) == ("queued", 1)
    assert Upkeep.objects.get(name=UPKEEP).passed_at > first
    assert scheduler.schedule == {}, "schedules are rows"
    assert scheduler.info == "    . upkeep -> every 1 s"


def due_in(job: Job, seconds: float, **values: Any) -> None:
    """Let the job be woken in ``seconds``."""
    Job.objects.filter(pk=job.pk).update(wake_at=Now() + timedelta(seconds=seconds), **values)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat with so long a pause that what a test does falls into it."""
    monkeypatch.setattr(beat, "INTERVAL", 200.0)


def test_the_next_pass_comes_when_a_wait_is_over(
    acme: Workspace, scheduler: UpkeepScheduler, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_in(waiting(noop.s(), acme), 150, wait_reason="retry")
    due_in(waiting(noop.s(), acme, "b"), 100, wait_reason="scheduled")
    assert 0.2 <= scheduler.tick() < 101
    monkeypatch.setattr(beat, "SHORTEST", 120.0)
    assert scheduler.tick() == 120.0, "many waits make no more passes than this"


def test_the_next_pass_comes_when_a_lease_ends(
    acme: Workspace, scheduler: UpkeepScheduler, slow: None
) -> None:
    job = claimed_elsewhere(waiting(noop.s(), acme))
    Job.objects.filter(pk=job.pk).update(lease_until=Now() + timedelta(seconds=100))
    assert 0.2 <= scheduler.tick() < 101
    Job.objects.filter(pk=job.pk).update(lease_until=Now() + timedelta(seconds=400))
    assert scheduler.tick() == 200.0


def test_a_lease_that_ended_and_cannot_be_reaped_makes_no_pass_come_early(
    acme: Workspace, scheduler: UpkeepScheduler, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost(acme)
    monkeypatch.setattr(beat, "sweep", lambda: None)
    assert scheduler.tick() == 200.0


def test_a_backlog_whose_messages_may_be_lost_makes_no_pass_come_early(
    acme: Workspace, scheduler: UpkeepScheduler, slow: None
) -> None:
    due_in(waiting(noop.s(), acme), 100, wait_reason="")
    assert scheduler.tick() == 200.0


def test_what_is_overdue_and_has_to_wait_for_others_makes_no_pass_come_early(
    acme: Workspace, scheduler: UpkeepScheduler, slow: None
) -> None:
    for key in ("a", "b"):
        claimed_elsewhere(waiting(shared.s(ledger=""), acme, key), lease_until=Now() + YEAR)
    overdue = waiting(shared.s(ledger=""), acme, "c")
    due_in(overdue, -100)
    assert scheduler.tick() == 200.0
    overdue.refresh_from_db()
    assert overdue.publishes == 0, "it is overdue, and its share is full"


def test_whatever_a_pass_raises_beat_goes_on_and_somebody_is_told(
    acme: Workspace,
    scheduler: UpkeepScheduler,
    faults: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(**_: object) -> None:
        raise OperationalError("the database is away")

    connection.ensure_connection()
    broken = connection.connection
    with monkeypatch.context() as patch:
        patch.setattr(beat, "sweep", away)
        assert scheduler.tick() == 1.0
    assert faults == [("pass", "the database is away")]
    assert connection.connection is not broken
    assert scheduler.tick() == 1.0
    assert len(faults) == 1


def test_after_an_outage_however_short_running_jobs_get_one_more_lease(
    acme: Workspace, scheduler: UpkeepScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their workers had no database either; who is gone is found out one lease later."""

    def away(**_: object) -> None:
        raise OperationalError("the database is away")

    job = lost(acme)
    scheduler.tick()
    job = expired(claimed_elsewhere(waiting(noop.s(), acme, "b")))
    with monkeypatch.context() as patch:
        patch.setattr(beat, "sweep", away)
        scheduler.tick()
    scheduler.tick()
    job.refresh_from_db()
    assert job.state == "running"
    expired(job)
    scheduler.tick()
    job.refresh_from_db()
    assert (job.state, job.losses) == ("queued", 1)


def test_missing_tables_are_told_in_one_line(
    scheduler: UpkeepScheduler,
    faults: list[tuple[str, str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_upkeep RENAME TO jobs_upkeep_away")
    try:
        assert scheduler.tick() == 1.0
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE jobs_upkeep_away RENAME TO jobs_upkeep")
    assert [record.message for record in caplog.records] == ["beat.not_migrated"]
    assert caplog.records[0].exc_info is None
    assert faults == []
    assert scheduler.tick() == 1.0


def test_a_session_that_was_ended_costs_no_more_than_its_pass(
    acme: Workspace, scheduler: UpkeepScheduler
) -> None:
    job = lost(acme)
    scheduler.tick()
    cut_off()
    assert scheduler.tick() == 1.0
    expired(job)
    scheduler.tick()
    job.refresh_from_db()
    assert job.state == "queued"


def behind_a_gate(workspace: Workspace, count: int) -> None:
    intents = [(gated.s(ledger="", account="a"), str(number)) for number in range(count)]
    enqueue_many(intents, workspace=workspace)


def published() -> int:
    return Job.objects.filter(kind=gated.name, publishes=1).count()


def taken_and_done() -> None:
    """Whoever was published has had its turn, and is gone."""
    Job.objects.filter(kind=gated.name, publishes=1).delete()


def time_for_shares() -> None:
    """The time between two turns has gone by."""
    Upkeep.objects.filter(name=SHARES).update(passed_at=Now() - SHARE_EVERY)


def test_while_something_waits_for_its_share_shares_are_filled_between_the_passes(
    acme: Workspace, scheduler: UpkeepScheduler, slow: None
) -> None:
    behind_a_gate(acme, 5)
    assert scheduler.tick() <= 0.4
    assert published() == 2
    taken_and_done()
    time_for_shares()
    job = lost(acme)
    assert scheduler.tick() <= 0.4
    assert published() == 2
    assert Job.objects.get(pk=job.pk).state == "running", "it is no whole pass"
    taken_and_done()
    time_for_shares()
    assert 150 < scheduler.tick() <= 200.0, "nothing waits any more: the pass comes when it would"
    assert published() == 1
    scheduler.tick()
    assert Job.objects.get(pk=job.pk).state == "queued"


def test_ticks_that_come_too_early_fill_no_share(
    acme: Workspace, scheduler: UpkeepScheduler, slow: None
) -> None:
    behind_a_gate(acme, 5)
    for _ in range(3):
        scheduler.tick()
        taken_and_done()
    assert Job.objects.filter(kind=gated.name).count() == 3


def test_beats_at_one_moment_fill_each_share_once(acme: Workspace) -> None:
    behind_a_gate(acme, 8)
    both = [Thread(target=alone, args=(fill_shares,)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(30)
    assert published() == 2


def alone(work: Callable[[], object]) -> None:
    try:
        work()
    finally:
        connection.close()


def test_a_tick_after_one_that_failed_is_a_whole_pass(
    acme: Workspace, scheduler: UpkeepScheduler, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise OperationalError("the database is away")

    behind_a_gate(acme, 5)
    scheduler.tick()
    with monkeypatch.context() as patch:
        patch.setattr(beat, "fill_shares", away)
        scheduler.tick()
    job = expired(claimed_elsewhere(waiting(noop.s(), acme)))
    scheduler.tick()
    renewed = Job.objects.filter(pk=job.pk, lease_until__gt=Now())
    assert renewed.exists(), "one more lease: it was a whole pass"
