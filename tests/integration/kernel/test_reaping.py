"""Jobs whose workers are gone: each reaped once, exactly recorded, and none stops the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from jobs import events, registry, worker
from jobs.kinds import Run, job_kind
from jobs.models import Event, Job, Upkeep
from jobs.recovery.cancel import cancel
from jobs.sweep import UPKEEP, sweep
from jobs.testing import attempt, crash_at, drain
from tests.drills.kinds import noop, once, repeatable
from tests.integration.kernel.acting import (
    about,
    claimed_elsewhere,
    expired,
    outcomes,
    reaping,
    states,
    swept,
    told,
    waiting,
)
from tests.integration.kernel.sessions import at_once, held_elsewhere, poisoned
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)


def lost(intended: object, workspace: Workspace, key: str = "a", **values: object) -> Job:
    """A job whose worker, elsewhere, has let its lease run out."""
    return expired(claimed_elsewhere(waiting(intended, workspace, key), **values))  # type: ignore[arg-type]


@pytest.mark.sqlite
def test_a_lost_attempt_is_recorded_exactly(acme: Workspace, ledger: str) -> None:
    job = lost(repeatable.s(ledger=ledger), acme)
    began, limit = job.started_at, job.kill_at

    swept(job)

    assert (job.state, job.wait_reason, job.lease_until) == ("queued", "retry", None)
    assert (job.attempt, job.losses, job.failures, job.deferrals) == (1, 1, 0, 0)
    row = job.attempts.get()
    assert (row.number, row.outcome, row.classification) == (1, "lost", "retry")
    assert row.reason == "worker lost"
    assert row.message == "worker lost: elsewhere/boot/1/1/1 did not renew its lease"
    assert (row.worker, row.started_at, row.kill_at) == ("elsewhere/boot/1/1/1", began, limit)
    assert 1 <= (row.delay or 0) <= 1.5
    assert about(row.delay or 0, job.run_at - row.ended_at)
    assert reaping().reaped == 0


@pytest.mark.sqlite
def test_losses_back_off_like_failures(acme: Workspace, ledger: str) -> None:
    waits = []
    job = waiting(repeatable.s(ledger=ledger), acme)
    for number in range(1, 4):
        expired(claimed_elsewhere(job, attempt=number))
        swept(job)
        waits.append(job.attempts.get(number=number).delay)
    assert waits == [1, 2, 4]


@pytest.mark.sqlite
def test_the_step_it_died_in_is_named(acme: Workspace, ledger: str) -> None:
    job = waiting(once.s(ledger=ledger), acme)
    with crash_at("charge", "started"):
        drain()
    assert (job.attempts.get().step, states(job)) == ("charge", {"charge": "started"})
    Job.objects.filter(pk=job.pk).update(deadline_at=Now())
    reaping()
    (event,) = Event.objects.filter(subject=str(job.pk))
    assert (event.type, event.data["step"]) == ("job.uncertain", "charge")


@pytest.mark.sqlite
def test_a_loss_that_the_kind_counts_as_a_failure_spends_that_budget(acme: Workspace) -> None:
    @job_kind("scene.costly", max_retries=1, loss_is_failure=True)
    def costly(run: Run) -> None: ...

    job = waiting(costly.s(), acme)
    for number in (1, 2):
        swept(expired(claimed_elsewhere(job, attempt=number)))
        job.refresh_from_db()
    assert (job.state, job.cause) == ("dead", "exhausted")
    assert (job.failures, job.losses) == (2, 2)
    assert outcomes(job)[-1] == ("lost", "worker lost; 1 retries are used up")


@pytest.mark.sqlite
def test_a_lost_job_that_was_to_be_cancelled_is_cancelled(acme: Workspace, ledger: str) -> None:
    job = claimed_elsewhere(waiting(repeatable.s(ledger=ledger), acme))
    cancel(job.pk, actor=SYSTEM, reason="no longer wanted")
    swept(expired(job))
    row = job.attempts.get()
    assert (job.state, job.cause, told(job)) == ("cancelled", "", ["job.cancelled"])
    assert (row.outcome, row.classification) == ("lost", "dead")


@pytest.mark.sqlite
def test_a_time_limit_counts_once_it_has_passed(acme: Workspace, ledger: str) -> None:
    """Its lease was renewed until then, so the worker lived until its limit."""
    job = waiting(repeatable.s(ledger=ledger), acme)
    limit = Now() - timedelta(seconds=30)
    job = claimed_elsewhere(job, kill_at=limit, lease_until=Now() - timedelta(seconds=1))
    swept(job)
    assert outcomes(job) == [("timed_out", "time limit passed")]
    assert (job.failures, job.losses) == (1, 0)


@pytest.mark.sqlite
def test_a_row_that_the_database_refuses_does_not_stop_the_rest(
    acme: Workspace, ledger: str
) -> None:
    jobs = [lost(repeatable.s(ledger=ledger), acme, key) for key in "abc"]
    late = waiting(noop.s(), acme, "late")
    Job.objects.filter(pk=late.pk).update(deadline_at=Now())
    heard: list[str] = []
    events.receives("scene.waits")(lambda event: heard.append(event.subject))
    events.emit("scene.waits", acme, "told again", {}, deliver=False)

    with poisoned(jobs[0]):
        done = reaping()

    assert (done.reaped, done.buried, done.delivered >= 1, done.faults) == (2, 1, True, 1)
    assert heard == ["told again"]
    jobs[0].refresh_from_db()
    assert jobs[0].state == "running"
    assert reaping().reaped == 1


def test_a_row_that_somebody_holds_is_left_to_the_next_pass(acme: Workspace, ledger: str) -> None:
    first, second = (lost(repeatable.s(ledger=ledger), acme, key) for key in "ab")
    with held_elsewhere(first):
        done = reaping()
        second.refresh_from_db()
        reaped = second.state
    assert (done.reaped, done.faults, reaped) == (1, 0, "queued")
    assert reaping().reaped == 1


def test_a_row_that_somebody_holds_does_not_keep_a_starting_pass_waiting(
    acme: Workspace, ledger: str
) -> None:
    """A worker that is frozen in a local step would else freeze every beat with it."""
    first, second = (lost(repeatable.s(ledger=ledger), acme, key) for key in "ab")
    with held_elsewhere(first):
        (done,) = at_once(sweep)
    second.refresh_from_db()
    assert getattr(done, "graced", done) is True
    assert second.lease_until is not None
    assert second.state == "running"
    assert sweep().reaped == 1, "the row that was held got no grace, the other did"


def test_an_event_whose_receiver_waits_for_a_row_does_not_keep_the_pass_waiting(
    acme: Workspace, ledger: str
) -> None:
    job, heard = waiting(noop.s(), acme), list[str]()

    def waits(event: Event) -> None:
        Job.objects.select_for_update().get(pk=event.subject)
        heard.append(event.subject)

    events.receives("scene.waits")(waits)
    events.receives("scene.hears")(lambda event: heard.append(event.subject))
    events.emit("scene.waits", acme, job.pk, {}, deliver=False)
    events.emit("scene.hears", acme, "the next one", {}, deliver=False)
    with held_elsewhere(job):
        reaping()
        meanwhile = list(heard)
    reaping()
    assert meanwhile == ["the next one"]
    assert heard == ["the next one", str(job.pk)]


def test_passes_at_once_reap_each_row_once(acme: Workspace, ledger: str) -> None:
    jobs = [lost(repeatable.s(ledger=ledger), acme, str(n)) for n in range(12)]
    done = at_once(*[reaping] * 4)
    assert sum(getattr(each, "reaped", -99) for each in done) == 12
    for job in jobs:
        job.refresh_from_db()
        assert (job.state, job.losses, len(outcomes(job))) == ("queued", 1, 1)


# --- the grace after a pause ---------------------------------------------------------------------


def paused(seconds: float) -> None:
    """Let the last pass be so long ago."""
    Upkeep.objects.update_or_create(
        name=UPKEEP, defaults={"passed_at": Now() - timedelta(seconds=seconds), "by": "b"}
    )


@pytest.mark.sqlite
@pytest.mark.parametrize(("seconds", "graced"), [(29, False), (31, True), (3600, True)])
def test_a_pass_after_a_pause_gives_one_more_lease(
    acme: Workspace, ledger: str, seconds: float, graced: bool
) -> None:
    job = lost(repeatable.s(ledger=ledger), acme)
    paused(seconds)
    done = sweep()
    job.refresh_from_db()
    assert (done.graced, done.reaped, job.state) == (
        graced,
        0 if graced else 1,
        "running" if graced else "queued",
    )


@pytest.mark.sqlite
def test_the_very_first_pass_is_one_after_a_pause(acme: Workspace, ledger: str) -> None:
    lost(repeatable.s(ledger=ledger), acme)
    assert sweep().graced
    assert not sweep().graced
    assert Upkeep.objects.get(name=UPKEEP).by == worker.identity()


@pytest.mark.sqlite
def test_the_grace_is_for_kinds_that_this_process_does_not_know_too(
    acme: Workspace, ledger: str
) -> None:
    job = lost(repeatable.s(ledger=ledger), acme)
    Job.objects.filter(pk=job.pk).update(kind="drills.of_tomorrow")
    paused(60)
    sweep()
    sweep()
    job.refresh_from_db()
    assert (job.state, job.losses) == ("running", 0)


@pytest.mark.sqlite
def test_a_lost_job_of_an_unknown_kind_has_the_default_budget(acme: Workspace, ledger: str) -> None:
    job = lost(repeatable.s(ledger=ledger), acme, losses=3)
    Job.objects.filter(pk=job.pk).update(kind="drills.of_tomorrow")
    swept(job)
    assert (job.state, job.cause) == ("dead", "lost")
    assert told(job) == ["job.dead"]


@pytest.mark.sqlite
def test_the_grace_never_shortens_a_lease(acme: Workspace, ledger: str) -> None:
    longer = Now() + timedelta(hours=2)
    job = claimed_elsewhere(waiting(repeatable.s(ledger=ledger), acme), lease_until=longer)
    until = job.lease_until
    paused(60)
    sweep()
    job.refresh_from_db()
    assert job.lease_until == until


# --- on the same host ----------------------------------------------------------------------------


def gone() -> str:
    """The identity of a process of this host that has ended."""
    code = "from jobs.worker import identity; print(identity())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.sqlite
def test_inline_a_worker_that_is_gone_is_reaped_before_its_lease_is_over(
    acme: Workspace, ledger: str, settings: Settings
) -> None:
    settings.FIREDOOR_INLINE = True
    dead = claimed_elsewhere(waiting(repeatable.s(ledger=ledger), acme), worker=gone())
    other = waiting(repeatable.s(ledger=ledger), acme, "b")
    alive = claimed_elsewhere(other, worker=worker.identity())
    assert reaping().reaped == 1
    dead.refresh_from_db()
    alive.refresh_from_db()
    assert (dead.state, alive.state) == ("queued", "running")


def test_with_a_broker_only_the_lease_counts(acme: Workspace, ledger: str) -> None:
    claimed_elsewhere(waiting(repeatable.s(ledger=ledger), acme), worker=gone())
    assert reaping().reaped == 0


@pytest.mark.sqlite
def test_a_reaped_job_runs_again(acme: Workspace, ledger: str) -> None:
    job = swept(lost(repeatable.s(ledger=ledger), acme))
    assert attempt(job).state == "succeeded"
    assert [outcome for outcome, _ in outcomes(job)] == ["lost", "succeeded"]
    assert registry.find(job.kind) is not None
    assert os.getpid() == int(job.attempts.get(number=2).worker.split("/")[-2])
