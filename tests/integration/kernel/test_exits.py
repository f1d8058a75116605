"""Code that ends its process, or raises what is no Exception, fails like any other."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from jobs import events, runner, shutdown
from jobs.kinds import Job, Run, job_kind, step
from jobs.models import Event
from jobs.shutdown import Vanished
from jobs.testing import at_step, attempt, drain
from tests.drills.kinds import noop, once, reconciled, repeatable
from tests.drills.ledger import effects
from tests.integration.kernel.acting import ended, resumed, states, tried, waiting
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


@pytest.fixture(autouse=True)
def _no_stop() -> Iterator[None]:
    yield
    shutdown.forget()


class Odd(BaseException):
    pass


RAISED = (
    SystemExit(3),
    GeneratorExit(),
    asyncio.CancelledError("the loop is closed"),
    Odd("odd"),
    BaseExceptionGroup("many", [SystemExit(1), ValueError("two")]),
)


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_it_is_a_failure_that_no_retry_mends(
    acme: Workspace, ledger: str, error: BaseException
) -> None:
    def raises(_: object) -> None:
        raise error

    with at_step("first", "during", raises):
        job = tried(repeatable.s(ledger=ledger), acme)
    assert (job.state, job.cause, job.failures) == ("dead", "terminal", 1)
    row = job.attempts.get()
    assert (row.outcome, row.step) == ("failed", "first")
    assert row.error_class.endswith(type(error).__name__)
    assert "Traceback" in row.traceback


def test_sys_exit_is_told_by_its_name(acme: Workspace, ledger: str) -> None:
    job = tried(repeatable.s(ledger=ledger, fault="exit"), acme)
    row = job.attempts.get()
    told = (row.error_class, row.message, row.reason, row.classification)
    assert told == ("SystemExit", "3", "exited", "dead")


def test_a_kind_may_say_that_a_retry_helps(acme: Workspace) -> None:
    tries: list[int] = []

    @job_kind("scene.exits", steps=(), autoretry_for=(SystemExit,), max_retries=2)
    def exits(run: Run) -> None:
        tries.append(run.attempt)
        if run.attempt == 1:
            raise SystemExit("a flaky command line")

    job = ended(exits.s(), acme)
    assert (job.state, tries) == ("succeeded", [1, 2])


def test_after_the_effect_of_a_once_step_it_is_uncertain(acme: Workspace, ledger: str) -> None:
    job = tried(once.s(ledger=ledger, fault="exit"), acme)
    assert (job.state, job.cause, states(job)) == ("dead", "uncertain", {"charge": "started"})
    assert job.attempts.get().error_class == "SystemExit"
    assert effects(ledger) == {"charge": 1}


def test_with_a_provider_that_can_be_asked_a_resume_asks(acme: Workspace, ledger: str) -> None:
    job = tried(reconciled.s(ledger=ledger, fault="exit"), acme)
    assert resumed(job).state == "succeeded"
    assert effects(ledger) == {"charge_found": 1, "asked": 1, "second": 1}


def test_what_a_local_step_wrote_before_is_undone(acme: Workspace) -> None:
    @step.local("keep")
    def keep() -> None:
        Workspace.objects.create(slug="kept", name="Kept")
        sys.exit("no")

    @job_kind("scene.keeps", steps=(keep,))
    def keeps(run: Run) -> None:
        run(keep)

    job = tried(keeps.s(), acme)
    assert (job.state, job.attempts.get().message, states(job)) == ("dead", "no", {})
    assert not Workspace.objects.filter(slug="kept").exists()


def in_a_thread(job: Job) -> list[BaseException]:
    """Run a job as `make serve` does: off the main thread. What came out of it."""
    escaped: list[BaseException] = []

    def work() -> None:
        try:
            runner.execute(job.kind, job.pk)
        except BaseException as error:  # noqa: BLE001  looked at by the test
            escaped.append(error)
        finally:
            connection.close()

    thread = Thread(target=work)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    job.refresh_from_db()
    return escaped


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_off_the_main_thread_no_signal_can_have_raised_it(
    acme: Workspace, ledger: str, error: BaseException
) -> None:
    def raises(_: object) -> None:
        raise error

    job = waiting(repeatable.s(ledger=ledger), acme)
    Job.objects.filter(pk=job.pk).update(run_at=Now())
    with at_step("first", "during", raises):
        assert in_a_thread(job) == []
    assert (job.state, job.attempts.get().error_class) == ("dead", type(error).__name__)


def test_a_worker_that_ignores_ctrl_c_met_none(acme: Workspace, ledger: str) -> None:
    def raises(_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with at_step("first", "during", raises):
            job = tried(repeatable.s(ledger=ledger), acme)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (job.state, job.attempts.get().error_class) == ("dead", "KeyboardInterrupt")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Vanished()], ids=repr)
def test_ctrl_c_of_a_command_and_the_end_of_a_process_stay_what_they_are(
    acme: Workspace, ledger: str, error: BaseException
) -> None:
    def raises(_: object) -> None:
        raise error

    job = waiting(repeatable.s(ledger=ledger), acme)
    with at_step("first", "during", raises), pytest.raises(type(error)):
        attempt(job)
    job.refresh_from_db()
    assert (job.state, job.attempts.count()) == ("running", 0)


# --- the author's code around a job -------------------------------------------------------------


def test_a_hook_that_exits_is_undone_alone_and_called_again(acme: Workspace) -> None:
    calls: list[str] = []

    @job_kind("scene.hooked", steps=())
    def hooked(run: Run) -> None:
        pass

    @hooked.after
    def exits(job: Job, verb: str, successor: Job | None) -> None:
        calls.append(verb)
        if len(calls) == 1:
            raise SystemExit(1)

    job = ended(hooked.s(), acme)
    assert (job.state, calls) == ("succeeded", ["succeeded"])
    event = Event.objects.get(type="job.hook_failed")
    assert event.data["error"] == "SystemExit: 1"


def test_a_receiver_that_exits_is_told_again(acme: Workspace) -> None:
    def exits(event: Event) -> None:
        raise SystemExit(1)

    events.receives("scene.told")(exits)
    event = events.emit("scene.told", acme, "x", {})
    event.refresh_from_db()
    assert (event.delivered_at, event.tries) == (None, 1)
    assert "SystemExit: 1" in event.error


def test_the_jobs_behind_it_run(acme: Workspace, ledger: str) -> None:
    first = waiting(repeatable.s(ledger=ledger, fault="exit"), acme)
    second: Any = waiting(noop.s(), acme, "b")
    drain()
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == ("dead", "succeeded")
