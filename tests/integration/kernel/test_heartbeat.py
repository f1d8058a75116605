"""The heartbeat keeps leases, notices what was asked from outside, and ends its process in time."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from jobs import heartbeat, moves
from jobs.fence import Claim
from jobs.heartbeat import Beat, Heartbeat
from jobs.journal import Journal
from jobs.models import Job
from jobs.stops import CancelRequested, DeadlinePassed, LeaseLost
from tests.drills.kinds import noop
from tests.integration.kernel.acting import waiting
from tests.integration.kernel.sessions import at_once, held_elsewhere
from tests.waiting import wait_until
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)

LEASE = 60.0


@pytest.fixture
def job(acme: Workspace) -> Job:
    job = waiting(noop.s(), acme)
    Job.objects.filter(pk=job.pk).update(run_at=Now())
    return job


@pytest.fixture
def journal(job: Job) -> Journal:
    claim = moves.claim(job.pk, job.kind, worker="me/b/1/1/1", lease=LEASE, time_limit=900)
    assert isinstance(claim, Claim)
    return Journal(claim)


def about_to_end(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(lease_until=Now() + timedelta(seconds=1))


def left(job: Job) -> float:
    """Seconds until the lease ends, in whole minutes, so that no clock is tested."""
    job.refresh_from_db()
    assert job.lease_until is not None
    assert job.started_at is not None
    return round((job.lease_until - job.started_at).total_seconds() / LEASE)


def beat(journal: Journal, *, age: float = LEASE, kill_in: float = 900) -> Beat:
    now = time.monotonic()
    return Beat(journal, kill_at=now + kill_in, renewed=now - age)


def passed(*beats: Beat) -> None:
    """One pass of a heart that keeps these, in a thread of its own as always."""
    heart = Heartbeat()
    heart._beats.update(beats)
    assert at_once(lambda: heart._pass(list(beats))) == [None]


def test_a_lease_is_renewed_when_a_third_of_it_has_passed(job: Job, journal: Journal) -> None:
    about_to_end(job)
    young, old = beat(journal, age=LEASE / 3 - 1), beat(journal, age=LEASE / 3)
    passed(young)
    untouched = left(job)
    passed(old)
    assert (untouched, left(job)) == (0, 1)
    assert old.renewed > young.renewed
    journal.boundary()


def test_a_lost_lease_stops_the_run_at_its_next_boundary(job: Job, journal: Journal) -> None:
    Job.objects.filter(pk=job.pk).update(worker="somebody else")
    passed(beat(journal))
    with pytest.raises(LeaseLost):
        journal.boundary()


@pytest.mark.parametrize(
    ("asked", "stop"),
    [("cancel_requested_at", CancelRequested), ("deadline_at", DeadlinePassed)],
)
def test_what_was_asked_from_outside_stops_the_run_at_its_next_boundary(
    job: Job, journal: Journal, asked: str, stop: type[BaseException]
) -> None:
    Job.objects.filter(pk=job.pk).update(**{asked: Now()})
    passed(beat(journal))
    with pytest.raises(stop):
        journal.boundary()


def test_a_row_that_somebody_holds_is_neither_renewed_nor_lost(job: Job, journal: Journal) -> None:
    """Its own local step holds it, for one: the heart must go on beating meanwhile."""
    mine = beat(journal)
    since = mine.renewed
    with held_elsewhere(job):
        passed(mine)
    journal.boundary()
    assert mine.renewed == since, "it is tried again with the next beat"
    passed(mine)
    assert mine.renewed > since


@pytest.mark.parametrize("error", [RuntimeError("of a library"), OSError("no more sockets")])
def test_nothing_stops_the_heart(
    job: Job, journal: Journal, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def breaks(_: object) -> None:
        raise error

    mine = beat(journal)
    monkeypatch.setattr(moves, "renew", breaks)
    passed(mine)
    journal.boundary()
    monkeypatch.undo()
    passed(mine)
    assert left(job) == 1


def test_at_the_time_limit_the_process_is_killed_before_any_statement(
    job: Job, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills: list[tuple[int, int]] = []
    monkeypatch.setattr("jobs.heartbeat.os.kill", lambda *told: kills.append(told))
    monkeypatch.setattr(moves, "renew", lambda fence: kills.append((0, 0)))
    passed(beat(journal, kill_in=-1))
    assert kills[0] == (os.getpid(), signal.SIGKILL)


def test_an_attempt_that_ended_meanwhile_is_left_alone(job: Job, journal: Journal) -> None:
    heart = Heartbeat()
    about_to_end(job)
    assert at_once(lambda: heart._pass([beat(journal, kill_in=-1)])) == [None]
    assert left(job) == 0


def test_a_running_heart_renews_by_itself_and_gives_its_connection_back(
    job: Job, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that the first attempt begins, with a lease short enough to see it."""
    monkeypatch.setattr(heartbeat, "_IDLE_TICKS", 1)
    claim = journal.claim
    short = Journal(replace(claim, fence=replace(claim.fence, lease=0.3)))
    about_to_end(job)
    first = job.lease_until
    with heartbeat.HEARTBEAT.keeping(short, time.monotonic() + 900):
        wait_until(lambda: left_since(job, first), what="a renewal")
    wait_until(lambda: sessions() == 1, what="the end of the heart's own session")
    assert not heartbeat.HEARTBEAT._beats


def left_since(job: Job, first: object) -> bool:
    job.refresh_from_db()
    return job.lease_until != first


def sessions() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])
