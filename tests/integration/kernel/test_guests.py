"""A hook that ends the transaction it is called in fails alone: its job becomes final."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from jobs import events
from jobs.errors import HookBroke
from jobs.kinds import Intended, Run, Terminal, job_kind
from jobs.models import Event, Job
from jobs.recovery.cancel import cancel
from jobs.recovery.resolve import resolve
from jobs.recovery.retry import retry
from jobs.sweep import sweep
from jobs.testing import drain
from tests.drills.kinds import noop
from tests.integration.kernel.acting import claimed_elsewhere, ended, expired, swept, told, waiting
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

PIPELINES: list[AbstractContextManager[object]] = []  # one that nobody holds is left at once
WHY = "somebody looked into it"


@pytest.fixture
def hooked() -> Intended:
    """A kind of the test's own, which fails for good."""

    @job_kind("scene.hooked", max_retries=0)
    def fails(_run: Run) -> None:
        raise Terminal("no")

    return fails.s()


def closes() -> None:
    connection.close()


def closes_and_raises() -> None:
    connection.close()
    raise ValueError("after it was closed")


def reconnects() -> None:
    connection.close()
    connection.connect()


def rolls_back() -> None:
    send("ROLLBACK")


def commits() -> None:
    send("COMMIT")


def commits_and_begins() -> None:
    send("COMMIT")
    send("BEGIN")


def enters() -> None:
    transaction.atomic().__enter__()


def pipes() -> None:
    PIPELINES.append(connection.connection.pipeline())
    PIPELINES[-1].__enter__()


def ends_its_session() -> None:
    send("SELECT pg_terminate_backend(pg_backend_pid())")


def exits() -> None:
    sys.exit(3)


def raises() -> None:
    raise ValueError("no")


def forks() -> None:
    child = os.fork()
    if child:
        os.waitpid(child, 0)


def send(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


ENDERS = (closes, closes_and_raises, reconnects, rolls_back, commits, commits_and_begins, enters)
POSTGRESQL_ONLY = (pipes, ends_its_session)


@pytest.fixture(params=[*ENDERS, *POSTGRESQL_ONLY], ids=lambda each: each.__name__)
def ends(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Code that ends the transaction it is called in."""
    if request.param in POSTGRESQL_ONLY and connection.vendor != "postgresql":
        pytest.skip("a file has no session")
    chosen: Callable[[], None] = request.param
    return chosen


@pytest.fixture(params=[*ENDERS, *POSTGRESQL_ONLY, exits, raises], ids=lambda each: each.__name__)
def fault(request: pytest.FixtureRequest) -> Callable[[], None]:
    if request.param in POSTGRESQL_ONLY and connection.vendor != "postgresql":
        pytest.skip("a file has no session")
    chosen: Callable[[], None] = request.param
    return chosen


def hooks(kind: Intended, *functions: Callable[[], None]) -> list[str]:
    """After hooks of the kind, one a function; what was called is in the list."""
    called: list[str] = []

    def hook(function: Callable[[], None]) -> Callable[..., None]:
        def after(_job: Job, word: str, _successor: Job | None) -> None:
            called.append(f"{function.__name__}:{word}")
            function()

        after.__qualname__ = function.__name__
        return after

    kind.spec.after_hooks.extend(hook(each) for each in functions)
    return called


def nothing() -> None:
    pass


def failed_hooks(job: Job) -> list[str]:
    found = Event.objects.filter(subject=str(job.pk), type="job.hook_failed").order_by("pk")
    return [event.data["hook"].rpartition(".")[2] for event in found]


def test_a_job_ends_whatever_its_hook_does(
    acme: Workspace, hooked: Intended, fault: Callable[[], None]
) -> None:
    called = hooks(hooked, fault, nothing)
    job = waiting(hooked, acme)
    after = waiting(noop.s(), acme, key="b")
    drain()
    job.refresh_from_db()
    after.refresh_from_db()
    assert (job.state, job.cause, job.attempts.count()) == ("dead", "terminal", 1)
    assert failed_hooks(job) == [fault.__name__]
    assert "nothing:dead" in called
    assert told(job).count("job.dead") == 1
    assert (after.state, after.attempt) == ("succeeded", 1)


def test_a_plain_success_is_final_too(acme: Workspace, ends: Callable[[], None]) -> None:
    @job_kind("scene.succeeds")
    def succeeds(_run: Run) -> None:
        pass

    hooks(succeeds.s(), ends)
    job = ended(succeeds.s(), acme)
    assert (job.state, job.attempts.count(), failed_hooks(job)) == (
        *("succeeded", 1),
        [ends.__name__],
    )


def test_upkeep_ends_what_was_lost_and_goes_on(
    acme: Workspace, hooked: Intended, fault: Callable[[], None]
) -> None:
    hooks(hooked, fault)
    jobs = [waiting(hooked, acme, key=key) for key in "ab"]
    for job in jobs:
        expired(claimed_elsewhere(job, losses=3))
    assert sweep(reap_now=True).faults == 0
    for job in jobs:
        job.refresh_from_db()
        assert (job.state, job.cause, failed_hooks(job)) == ("dead", "lost", [fault.__name__])
        assert told(job).count("job.dead") == 1


def test_a_command_that_sweeps_outlives_it(
    acme: Workspace, hooked: Intended, fault: Callable[[], None]
) -> None:
    hooks(hooked, fault)
    job = expired(claimed_elsewhere(waiting(hooked, acme), losses=3))
    call_command("sweep", reap=True)
    call_command("sweep", reap=True)
    assert swept(job).state == "dead"


def test_it_is_told_again_until_it_returns(
    acme: Workspace, hooked: Intended, ends: Callable[[], None]
) -> None:
    if ends is ends_its_session:
        pytest.skip("a lost session is forgiven once")
    calls: list[str] = []

    def twice() -> None:
        calls.append("called")
        if len(calls) < 3:
            ends()

    hooks(hooked, twice)
    job = ended(hooked, acme)
    event = Event.objects.get(subject=str(job.pk), type="job.hook_failed")
    assert sweep().faults == 0
    event.refresh_from_db()
    assert event.delivered_at is None
    assert "ended the transaction" in event.error
    sweep()
    event.refresh_from_db()
    assert (event.delivered_at is not None, len(calls)) == (True, 3)


def test_a_listener_that_ends_it_keeps_no_job_from_ending(
    acme: Workspace, hooked: Intended, ends: Callable[[], None]
) -> None:
    def listens(_event: Event) -> None:
        ends()

    events._receivers.append(events.Receiver(frozenset({"job.dead"}), listens, None))
    job = ended(hooked, acme)
    assert job.state == "dead"
    event = Event.objects.get(subject=str(job.pk), type="job.dead")
    assert event.delivered_at is None
    assert sweep().faults == 0
    event.refresh_from_db()
    assert (event.delivered_at, "ended the transaction" in event.error) == (None, True)


def test_a_fork_of_a_hook_does_not_come_back(acme: Workspace, hooked: Intended) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite forbids a connection that was carried over a fork")
    hooks(hooked, forks)
    job = ended(hooked, acme)
    assert (job.state, failed_hooks(job), told(job).count("job.dead")) == ("dead", [], 1)


def resume(job: Job) -> Job:
    return retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)


def close(job: Job) -> Job:
    return resolve(job.pk, actor=SYSTEM, reason=WHY)


@pytest.mark.parametrize("deed", [resume, close], ids=lambda each: each.__name__)
def test_a_deed_is_refused_with_a_sentence_when_it_asks(
    acme: Workspace, hooked: Intended, fault: Callable[[], None], deed: Callable[[Job], Job]
) -> None:
    if fault in (raises, ends_its_session):
        pytest.skip("these raise what the caller knows how to meet")
    job = ended(hooked, acme)
    hooked.spec.before_hooks.append(lambda _job, _verb: fault())
    with pytest.raises(HookBroke, match=r"Nothing was done: the hook .* must mend it"):
        deed(job)
    job.refresh_from_db()
    assert (job.resolved_at, Job.objects.count()) == (None, 1)
    assert AuditEvent.objects.get().result == "hook_broke"


def test_a_deed_is_undone_where_the_hook_that_is_told_ends_it(
    acme: Workspace, hooked: Intended, ends: Callable[[], None]
) -> None:
    if ends in (commits, commits_and_begins, ends_its_session):
        pytest.skip("what is committed is done, and a lost session is the caller's to meet")
    job = ended(hooked, acme)
    hooks(hooked, ends)
    with pytest.raises(HookBroke, match="look at the job"):
        resume(job)
    assert Job.objects.count() == 1
    hooked.spec.after_hooks.clear()
    assert resume(job).created


def test_a_cancelled_job_is_final_whatever_its_hook_does(acme: Workspace, hooked: Intended) -> None:
    calls: list[str] = []

    def closes_when_final() -> None:
        calls.append("called")
        if len(calls) == 1:
            connection.close()

    hooks(hooked, closes_when_final)
    job = waiting(hooked, acme)
    assert cancel(job.pk, actor=SYSTEM, reason=WHY).state == "cancelled"
    assert failed_hooks(job) == ["closes_when_final"]
    assert AuditEvent.objects.get().action == "job.cancel"


@pytest.mark.parametrize("error", [ValueError, SystemExit], ids=lambda each: each.__name__)
def test_what_a_hook_hangs_on_the_commit_ends_nothing(
    acme: Workspace, hooked: Intended, error: type[BaseException]
) -> None:
    def refuses() -> None:
        raise error("after the commit")

    def hangs() -> None:
        transaction.on_commit(refuses)

    hooks(hooked, hangs)
    job = waiting(hooked, acme)
    after = waiting(noop.s(), acme, key="b")
    drain()
    job.refresh_from_db()
    after.refresh_from_db()
    assert (job.state, after.state) == ("dead", "succeeded")
