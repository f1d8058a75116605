"""*It did not happen* is believed only when the attempt that meant to do it is surely over."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from jobs import over, runner
from jobs.models import Job
from jobs.testing import at_step, attempt, crash_at, drain
from jobs.testing.running import ELSEWHERE
from jobs.worker import unlimited
from tests.drills.held import held_asking
from tests.drills.kinds import not_happened
from tests.drills.ledger import effects
from tests.integration.kernel.acting import about, outcomes, reaping, waiting
from tests.waiting import wait_until
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

SAY_WHO = "from jobs.worker import identity; print(identity(), flush=True); input()"
PAST = Now() - timedelta(hours=1)


@pytest.fixture(autouse=True)
def _inline(settings: Settings) -> None:
    settings.FIREDOOR_INLINE = True


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """Another process of this machine, alive until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", SAY_WHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def name_of(process: subprocess.Popen[str], *, limited: bool = False) -> str:
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    return name if limited else unlimited(name)


def timed_out(acme: Workspace, ledger: str, worker: str, **more: object) -> Job:
    """A job whose first attempt meant to charge and was closed by a sweeper, past its limit."""
    job = waiting(not_happened.s(ledger=ledger), acme)
    with crash_at("charge_lost", "started"):
        drain()
    told = {"outcome": "timed_out", "error_class": "", "worker": worker, "kill_at": PAST}
    job.attempts.update(**{**told, **more})
    return job


@pytest.mark.parametrize("limited", [True, False], ids=["prefork", "inline"])
def test_not_while_its_process_is_seen_alive_whatever_was_to_end_it(
    acme: Workspace, ledger: str, other: subprocess.Popen[str], *, limited: bool
) -> None:
    """What was paused, with its parent, through the moment that should have ended it."""
    worker = name_of(other, limited=limited)
    other.send_signal(signal.SIGSTOP)
    job = attempt(timed_out(acme, ledger, worker))
    assert (job.state, job.wait_reason) == ("queued", "deferred")
    assert about(over.ASK_AGAIN, job.run_at - timezone.now())
    assert effects(ledger) == {"asked": 1}
    other.kill()
    other.wait()
    job = attempt(job)
    assert job.state == "succeeded"
    assert effects(ledger) == {"asked": 2, "charge_lost": 1, "second": 1}


def test_a_loss_is_no_proof_either_once_its_limit_has_passed(
    acme: Workspace, ledger: str, other: subprocess.Popen[str]
) -> None:
    job = attempt(timed_out(acme, ledger, name_of(other), outcome="lost"))
    assert (job.state, job.wait_reason, effects(ledger)["charge_lost"]) == ("queued", "deferred", 0)


def test_where_nobody_can_know_it_is_uncertain(acme: Workspace, ledger: str) -> None:
    job = attempt(timed_out(acme, ledger, unlimited(ELSEWHERE)))
    assert (job.state, job.cause) == ("dead", "uncertain")
    assert "cannot be seen from here" in outcomes(job)[-1][1]
    assert effects(ledger) == {"asked": 1}


def test_before_its_limit_the_one_that_cannot_be_seen_is_waited_for(
    acme: Workspace, ledger: str
) -> None:
    later = Now() + timedelta(hours=1)
    job = attempt(timed_out(acme, ledger, unlimited(ELSEWHERE), outcome="lost", kill_at=later))
    assert (job.state, job.wait_reason, effects(ledger)["charge_lost"]) == ("queued", "deferred", 0)


def test_the_limit_of_one_that_is_ended_there_is_proof(acme: Workspace, ledger: str) -> None:
    job = attempt(timed_out(acme, ledger, ELSEWHERE))
    assert (job.state, effects(ledger)["charge_lost"]) == ("succeeded", 1)


def test_before_its_limit_the_limit_is_waited_for(
    acme: Workspace, ledger: str, other: subprocess.Popen[str]
) -> None:
    told = {"outcome": "lost", "kill_at": Now() + timedelta(hours=1)}
    job = attempt(timed_out(acme, ledger, name_of(other, limited=True), **told))
    assert about(3600, job.run_at - timezone.now())


@pytest.mark.parametrize("inline", [True, False])
def test_what_ran_in_this_process_and_does_not_any_more_is_over(
    acme: Workspace, ledger: str, *, inline: bool
) -> None:
    later = Now() + timedelta(hours=1)
    me = over.claimant(inline=inline)
    job = attempt(timed_out(acme, ledger, me, outcome="lost", kill_at=later))
    assert (job.state, effects(ledger)["charge_lost"]) == ("succeeded", 1)


def test_what_its_own_worker_said_is_its_end(
    acme: Workspace, ledger: str, other: subprocess.Popen[str]
) -> None:
    """A soft time limit is recorded by the worker that met it."""
    told = {"error_class": "SoftTimeLimitExceeded"}
    job = attempt(timed_out(acme, ledger, name_of(other), **told))
    assert (job.state, effects(ledger)["charge_lost"]) == ("succeeded", 1)


def in_a_thread(work: Callable[[], object]) -> Thread:
    def all_of_it() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = Thread(target=all_of_it)
    thread.start()
    return thread


def test_an_inline_attempt_that_outlives_its_limit_does_its_effect_alone(
    acme: Workspace, ledger: str
) -> None:
    """The whole of it: held before its effect, closed by a sweeper, asked about, then let go."""
    hold = Path(f"{ledger}.hold")
    hold.touch()
    job = waiting(held_asking.s(ledger=ledger, early=True), acme)
    Job.objects.update(run_at=Now())
    with at_step("pay_or_ask", "started", lambda _: None) as begun:
        late = in_a_thread(lambda: runner.execute(job.kind, job.pk))
        try:
            wait_until(lambda: bool(begun), what="it has said what it means to do")
            Job.objects.filter(pk=job.pk).update(
                kill_at=Now() - timedelta(seconds=61), lease_until=Now() - timedelta(seconds=1)
            )
            reaping()
            attempt(job)
            early = (job.state, job.wait_reason, effects(ledger)["pay"])
            asked = effects(ledger)["asked"]
        finally:
            hold.unlink()
            late.join(20)
    assert not late.is_alive()
    assert (early, asked) == (("queued", "deferred", 0), 1)
    assert [outcome for outcome, _ in outcomes(job)] == ["timed_out"]
    assert attempt(job).state == "succeeded"
    assert effects(ledger) == {"before": 1, "asked": 1, "pay": 1, "after": 1}


def test_on_sqlite_what_ran_before_the_machine_was_started_anew_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its file is of one machine. A server is shared by machines that may have the same name."""
    name = over.claimant(inline=True)
    monkeypatch.setattr("jobs.worker._boot_id", lambda: "the-next-boot")
    assert over.has_ended(name) is (connection.vendor == "sqlite")
    assert not over.has_ended(unlimited(ELSEWHERE))
