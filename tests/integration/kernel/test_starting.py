"""What is due is run or published, what can never start is buried, and nothing is forgotten."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from kombu.exceptions import OperationalError
from pytest_django import Settings

from jobs import drain as draining
from jobs import publish as publishing
from jobs import runner, tasks
from jobs.fence import Wake
from jobs.kinds import Defer, Run, job_kind
from jobs.models import Job
from jobs.publish import publish
from jobs.sweep import sweep
from jobs.testing import attempt
from tests.drills.kinds import noop, repeatable
from tests.drills.ledger import effects
from tests.integration.kernel.acting import claimed_elsewhere, reaping, told, waiting
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)


def seen(job: Job) -> Job:
    job.refresh_from_db()
    return job


def due(job: Job, **values: object) -> Job:
    Job.objects.filter(pk=job.pk).update(run_at=Now(), wake_at=Now(), **values)
    return seen(job)


# --- what claims nothing -------------------------------------------------------------------------


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "values",
    [
        {"run_at": Now() + timedelta(hours=1)},
        {"deadline_at": Now()},
        {"cancel_requested_at": Now()},
        {"state": "succeeded", "finished_at": Now()},
        {"state": "dead", "cause": "terminal", "finished_at": Now()},
        {"state": "cancelled", "finished_at": Now()},
    ],
    ids=["not due", "late", "cancelled while queued", "succeeded", "dead", "cancelled"],
)
def test_a_message_that_finds_nothing_to_claim_leaves_no_trace(
    acme: Workspace, values: dict[str, object]
) -> None:
    job = due(waiting(noop.s(), acme))
    Job.objects.filter(pk=job.pk).update(**values)
    before = Job.objects.filter(pk=job.pk).values().get()
    assert not runner.execute(job.kind, job.pk)
    assert Job.objects.filter(pk=job.pk).values().get() == before
    assert not job.attempts.exists()


@pytest.mark.sqlite
def test_a_running_job_is_not_claimed_a_second_time(acme: Workspace) -> None:
    job = claimed_elsewhere(due(waiting(noop.s(), acme)))
    assert not runner.execute(job.kind, job.pk)
    assert seen(job).worker == "elsewhere/boot/1/1/1"


@pytest.mark.sqlite
def test_an_id_that_no_job_has_claims_nothing(acme: Workspace) -> None:
    assert not runner.execute("drills.noop", uuid.uuid4())


@pytest.mark.sqlite
def test_a_message_of_another_kind_claims_nothing(acme: Workspace) -> None:
    job = due(waiting(noop.s(), acme))
    assert not runner.execute("drills.repeatable", job.pk)
    assert seen(job).state == "queued"


# --- draining ------------------------------------------------------------------------------------


@pytest.mark.sqlite
def test_a_drain_runs_the_oldest_first_and_no_more_than_asked(acme: Workspace, ledger: str) -> None:
    jobs = [waiting(noop.s(), acme, str(n)) for n in range(5)]
    for number, job in enumerate(jobs):
        due(job)
        Job.objects.filter(pk=job.pk).update(run_at=Now() - timedelta(hours=1 + number))
    assert draining.drain(limit=2) == 2
    assert [seen(job).state for job in jobs] == ["queued"] * 3 + ["succeeded"] * 2
    assert draining.drain() == 3
    assert draining.drain() == 0


@pytest.mark.sqlite
def test_a_drain_inside_a_transaction_does_nothing(acme: Workspace) -> None:
    job = due(waiting(noop.s(), acme))
    with transaction.atomic():
        assert draining.drain() == 0
    assert seen(job).state == "queued"


@pytest.mark.sqlite
def test_what_a_job_enqueues_is_run_by_the_drain_that_runs_it(
    acme: Workspace, settings: Settings
) -> None:
    settings.FIREDOOR_INLINE = True
    seen_inside: list[str] = []

    @job_kind("scene.parent")
    def parent(run: Run) -> None:
        child = noop.s().enqueue(workspace=acme, key="child")
        seen_inside.append(seen(child).state)

    parent.s().enqueue(workspace=acme, key="parent")
    assert seen_inside == ["queued"]
    assert set(Job.objects.values_list("state", flat=True)) == {"succeeded"}


@pytest.mark.sqlite
def test_what_is_for_later_waits_inline_too(acme: Workspace, settings: Settings) -> None:
    """Celery's eager mode would run it at once."""
    settings.FIREDOOR_INLINE = True
    job = waiting(noop.s(), acme)
    noop.s().enqueue(workspace=acme, key="now")
    assert (seen(job).state, job.attempt, job.wait_reason) == ("queued", 0, "scheduled")
    assert draining.drain() == 0
    due(job)
    assert draining.drain() == 1


@pytest.mark.sqlite
def test_a_serving_process_leaves_jobs_to_its_one_working_thread(
    acme: Workspace, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FIREDOOR_INLINE = True
    monkeypatch.setattr(publishing._Drains, "serving", True)
    job = noop.s().enqueue(workspace=acme, key="a")
    left_alone = seen(job).state
    monkeypatch.setattr(publishing._Drains.thread, "works", True, raising=False)
    publish([])
    assert (left_alone, seen(job).state) == ("queued", "succeeded")


# --- deadlines and what cannot start -------------------------------------------------------------


@pytest.mark.sqlite
def test_a_job_past_its_deadline_is_told_of_and_leaves_no_attempt(acme: Workspace) -> None:
    job = due(waiting(noop.s(), acme), deadline_at=Now())
    assert reaping().buried == 1
    assert (seen(job).state, job.cause, told(job)) == ("dead", "deadline", ["job.dead"])
    assert not job.attempts.exists()
    assert reaping().buried == 0


@pytest.mark.sqlite
def test_the_deadline_runs_from_the_later_of_creation_and_run_at(acme: Workspace) -> None:
    @job_kind("scene.quick", deadline=timedelta(hours=2))
    def quick(run: Run) -> None: ...

    @job_kind("scene.endless", deadline=None)
    def endless(run: Run) -> None: ...

    later, now = waiting(quick.s(), acme, "later"), quick.s().enqueue(workspace=acme, key="now")
    assert later.deadline_at is not None
    assert now.deadline_at is not None
    assert later.deadline_at - later.run_at == timedelta(hours=2)
    assert abs(now.deadline_at - now.created_at - timedelta(hours=2)) < timedelta(minutes=1)
    assert waiting(endless.s(), acme).deadline_at is None


def unknown_for(job: Job, age: timedelta, kind: str = "drills.of_tomorrow") -> Job:
    """A job that a sweeper which did not know its kind has marked so long ago."""
    since = Now() - age
    return due(job, kind=kind, wait_reason="unstartable", wait_since=since)


@pytest.mark.sqlite
@pytest.mark.parametrize(("minutes", "state"), [(59, "queued"), (61, "dead")])
def test_a_kind_that_nobody_knows_is_buried_after_an_hour(
    acme: Workspace, minutes: int, state: str
) -> None:
    job = unknown_for(waiting(noop.s(), acme), timedelta(minutes=minutes))
    sweep()
    assert seen(job).state == state
    assert job.cause == ("unstartable" if state == "dead" else "")


@pytest.mark.sqlite
def test_a_kind_that_became_known_meanwhile_is_not_buried(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new sweeper looks again: an older one marked the job in the middle of a deploy."""
    monkeypatch.setattr(publishing._Drains, "serving", True)
    job = unknown_for(waiting(noop.s(), acme), timedelta(hours=2), kind="drills.noop")
    assert sweep().buried == 0
    assert (seen(job).state, job.wait_reason, job.wait_since) == ("queued", "", None)
    assert attempt(job).state == "succeeded"


@pytest.mark.sqlite
def test_params_that_are_refused_for_an_hour_are_buried(acme: Workspace, ledger: str) -> None:
    job = due(waiting(repeatable.s(ledger=ledger), acme), params={"ledger": 7})
    attempt(job)
    early = (job.state, job.wait_reason, job.attempts.count(), job.deferrals)
    Job.objects.filter(pk=job.pk).update(wait_since=Now() - timedelta(minutes=61))
    sweep()
    assert early == ("queued", "unstartable", 0, 1)
    assert (seen(job).state, job.cause, told(job)) == ("dead", "unstartable", ["job.dead"])
    assert effects(ledger) == {}


@pytest.mark.sqlite
def test_an_hour_of_not_starting_is_not_carried_over_to_another_wait(
    acme: Workspace, ledger: str
) -> None:
    job = due(waiting(repeatable.s(ledger=ledger), acme), params={"ledger": 7})
    attempt(job)
    Job.objects.filter(pk=job.pk).update(wait_since=Now() - timedelta(minutes=61))
    Job.objects.filter(pk=job.pk).update(params={"ledger": ledger, "fault": "transient"})
    attempt(job)
    assert (job.state, job.wait_reason) == ("queued", "retry")
    assert reaping().buried == 0


@pytest.mark.sqlite
def test_a_kind_that_nobody_knows_is_noted_by_the_first_pass_that_would_wake_it(
    acme: Workspace,
) -> None:
    job = due(waiting(noop.s(), acme), kind="drills.of_tomorrow")
    sweep()
    first = seen(job).wait_since
    assert (job.state, job.wait_reason) == ("queued", "unstartable")
    due(job)
    sweep()
    assert seen(job).wait_since == first


# --- waking --------------------------------------------------------------------------------------


class Broker:
    """What was published, and whether the broker can be had."""

    def __init__(self) -> None:
        self.sent: list[uuid.UUID] = []
        self.down = False

    def send(self, wakes: list[Wake]) -> None:
        if self.down:
            raise OperationalError("refused")
        self.sent += [wake.job_id for wake in wakes]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr(tasks, "send", broker.send)
    monkeypatch.setattr(publishing._Broker, "skip_until", 0.0)
    return broker


LADDER = (30, 60, 120, 240, 480, 960, 1800)


def left(job: Job) -> int:
    """The rung of the ladder, in seconds, that the next wake was set to a moment ago."""
    row = Job.objects.values_list(F("wake_at") - Now()).get(pk=job.pk)
    return next(rung for rung in LADDER if row[0].total_seconds() <= rung)


def test_a_new_job_is_published_after_the_commit_and_again_half_a_minute_later(
    acme: Workspace, broker: Broker
) -> None:
    with transaction.atomic():
        job = noop.s().enqueue(workspace=acme, key="a")
        before = list(broker.sent)
    assert (before, broker.sent) == ([], [job.pk])
    assert left(job) == 30


def test_what_was_rolled_back_wakes_nobody(acme: Workspace, broker: Broker) -> None:
    with transaction.atomic():
        noop.s().enqueue(workspace=acme, key="a")
        transaction.set_rollback(True)
    assert broker.sent == []
    assert not Job.objects.exists()


def test_a_delayed_job_is_first_published_when_it_is_due(acme: Workspace, broker: Broker) -> None:
    job = waiting(noop.s(), acme)
    assert broker.sent == []
    assert job.wake_at == job.run_at
    assert job.wait_reason == "scheduled"
    due(job)
    assert sweep().published == 1
    assert broker.sent == [job.pk]


def test_a_wake_that_was_lost_is_repeated_later_and_later(acme: Workspace, broker: Broker) -> None:
    job = noop.s().enqueue(workspace=acme, key="a")
    waits = []
    for _ in range(8):
        Job.objects.filter(pk=job.pk).update(wake_at=Now())
        sweep()
        waits.append(left(job))
    assert waits == [30, 60, 120, 240, 480, 960, 1800, 1800]
    assert broker.sent == [job.pk] * 9


def test_a_broker_that_is_down_neither_fails_the_caller_nor_pushes_the_wake_away(
    acme: Workspace, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.down = True
    jobs = [noop.s().enqueue(workspace=acme, key=str(n)) for n in range(3)]
    for job in jobs:
        due(job)
    for _ in range(5):
        assert sweep().published == 0
    broker.down = False
    monkeypatch.setattr(publishing._Broker, "skip_until", 0.0)
    assert sweep().published == 3
    assert sorted(broker.sent) == sorted(job.pk for job in jobs)
    assert {seen(job).publishes for job in jobs} == {1}


def test_after_a_failed_publish_this_process_does_not_try_for_a_while(
    acme: Workspace, broker: Broker
) -> None:
    broker.down = True
    noop.s().enqueue(workspace=acme, key="a")
    broker.down = False
    noop.s().enqueue(workspace=acme, key="b")
    assert broker.sent == []


def test_whatever_publishing_raises_the_caller_does_not_hear_it(
    acme: Workspace, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_: object) -> None:
        raise RuntimeError("of the broker's library")

    monkeypatch.setattr(tasks, "send", breaks)
    job = noop.s().enqueue(workspace=acme, key="a")
    assert (job.created, seen(job).state) == (True, "queued")


def test_a_pass_of_older_code_takes_no_wake_away_from_newer_code(
    acme: Workspace, broker: Broker
) -> None:
    job = due(waiting(noop.s(), acme), kind="drills.of_tomorrow")
    for _ in range(4):
        sweep()
        assert (broker.sent, seen(job).publishes, left(job)) == ([], 0, 30)
        due(job)
    due(job, kind="drills.noop")  # as newer code sees it
    sweep()
    assert (broker.sent, seen(job).publishes) == ([job.pk], 1)


def test_a_job_of_an_unknown_kind_wakes_nobody(acme: Workspace, broker: Broker) -> None:
    job = due(waiting(noop.s(), acme), kind="drills.of_tomorrow")
    sweep()
    assert broker.sent == []
    assert left(job) == 30


def test_what_failed_or_deferred_is_woken_when_it_is_due(acme: Workspace, broker: Broker) -> None:
    @job_kind("scene.defers_once")
    def defers_once(run: Run) -> None:
        if run.attempt == 1:
            raise Defer(120, "not yet")

    job = attempt(waiting(defers_once.s(), acme))
    assert (job.wake_at, job.publishes) == (job.run_at, 0)
    assert sweep().published == 0
    due(job)
    assert sweep().published == 1
