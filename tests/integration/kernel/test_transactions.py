"""What is recorded of a step outlives every transaction of the author's, and harms no neighbour."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress

import pytest
from django.db import connection, transaction

from jobs import registry
from jobs.kinds import Job, Run, Transient, job_kind, step
from jobs.testing import drain
from tests.drills.kinds import noop, once, second
from tests.drills.ledger import effects, happened
from tests.integration.kernel.acting import ended, waiting
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


@pytest.fixture(autouse=True)
def _own_kinds() -> Iterator[None]:
    before = dict(registry.KINDS)
    yield
    registry.KINDS.clear()
    registry.KINDS.update(before)


def last_error(job: Job) -> str:
    return job.attempts.latest("number").error_class.rpartition(".")[2]


@step.once("pay")
def pay(ledger: str) -> None:
    happened(ledger, "pay")


def enter() -> None:
    transaction.atomic().__enter__()


def turn_off() -> None:
    transaction.set_autocommit(False)


def begin() -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")


def turn_off_behind() -> None:
    """By the driver, so that Django does not know."""
    connection.ensure_connection()
    connection.connection.autocommit = False


PIPELINES: list[AbstractContextManager[object]] = []  # one that nobody holds is left at once


def pipe() -> None:
    """In psycopg's pipeline a statement of ours would wait for its answer for ever."""
    connection.ensure_connection()
    PIPELINES.append(connection.connection.pipeline())
    PIPELINES[-1].__enter__()


OPENERS = (enter, turn_off, begin, turn_off_behind, pipe)


@pytest.fixture(params=OPENERS, ids=lambda opens: opens.__name__)
def opens(request: pytest.FixtureRequest) -> Callable[[], None]:
    if request.param in (turn_off_behind, pipe) and connection.vendor != "postgresql":
        pytest.skip("only psycopg has it")
    chosen: Callable[[], None] = request.param
    return chosen


def test_no_step_is_begun_inside_a_transaction(
    acme: Workspace, ledger: str, opens: Callable[[], None]
) -> None:
    """Its intent would go with the rollback, and every retry would do the effect again."""

    @job_kind("scene.within", steps=(pay,))
    def within(run: Run, *, ledger: str) -> None:
        opens()
        run(pay, ledger)

    job = ended(within.s(ledger=ledger), acme)
    assert (job.state, job.cause, last_error(job)) == ("dead", "terminal", "TransactionOpen")
    assert effects(ledger)["pay"] == 0
    assert not job.steps.exists()


def test_a_handler_that_is_one_transaction_repeats_no_effect(acme: Workspace, ledger: str) -> None:
    @job_kind("scene.atomic", steps=(pay,))
    @transaction.atomic
    def atomic(run: Run, *, ledger: str) -> None:
        run(pay, ledger)
        raise Transient("the mail server is away")

    job = ended(atomic.s(ledger=ledger), acme)
    assert (job.state, last_error(job)) == ("dead", "TransactionOpen")
    assert effects(ledger)["pay"] == 0


def test_what_the_kernel_sends_inside_a_pipeline_is_refused(acme: Workspace) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("only psycopg has it")

    @job_kind("scene.pipes")
    def pipes(run: Run) -> None:
        with connection.connection.pipeline():
            run.progress(0.5, "half")

    job = ended(pipes.s(), acme)
    assert (job.state, last_error(job)) == ("dead", "PipelineOpen")


def test_no_lock_is_taken_inside_a_transaction(acme: Workspace) -> None:
    @job_kind("scene.locks")
    @transaction.atomic
    def locks(run: Run) -> None:
        run.lock("door")

    assert last_error(ended(locks.s(), acme)) == "TransactionOpen"


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "fails"])
def test_a_step_that_leaves_one_open_harms_only_itself(
    acme: Workspace, ledger: str, opens: Callable[[], None], *, fails: bool
) -> None:
    @step.once("leave")
    def leave(ledger: str) -> None:
        happened(ledger, "leave")
        opens()
        if fails:
            raise Transient("no", happened=False)

    @job_kind("scene.leaves", steps=(leave,), max_retries=0)
    def leaves(run: Run, *, ledger: str) -> None:
        run(leave, ledger)

    neighbour = f"{ledger}.neighbour"
    job = waiting(leaves.s(ledger=ledger), acme)
    after = waiting(once.s(ledger=neighbour), acme, key="b")
    drain()
    job.refresh_from_db()
    after.refresh_from_db()
    cause, error = ("exhausted", "Transient") if fails else ("uncertain", "TransactionOpen")
    assert (job.state, job.cause, last_error(job)) == ("dead", cause, error)
    assert effects(ledger)["leave"] == 1
    assert (after.state, after.attempt, after.attempts.count()) == ("succeeded", 1, 1)
    assert effects(neighbour)["charge"] == 1


def test_a_handler_that_leaves_one_open_has_failed(
    acme: Workspace, ledger: str, opens: Callable[[], None]
) -> None:
    """What it wrote there is gone, so it must not count as done."""

    @job_kind("scene.leaves", steps=(pay,))
    def leaves(run: Run, *, ledger: str) -> None:
        run(pay, ledger)
        opens()

    job = waiting(leaves.s(ledger=ledger), acme)
    after = waiting(noop.s(), acme, key="b")
    drain()
    job.refresh_from_db()
    after.refresh_from_db()
    assert (job.state, job.cause, last_error(job)) == ("dead", "terminal", "TransactionOpen")
    assert (effects(ledger)["pay"], job.steps.get().state) == (1, "done")
    assert (after.state, after.attempt) == ("succeeded", 1)


def test_a_local_step_that_leaves_one_open_is_not_done(acme: Workspace, ledger: str) -> None:
    @step.local("book")
    def book(ledger: str) -> None:
        happened(ledger, "book")
        enter()

    @job_kind("scene.local", steps=(book,), max_retries=0)
    def local(run: Run, *, ledger: str) -> None:
        run(book, ledger)

    job = waiting(local.s(ledger=ledger), acme)
    after = waiting(noop.s(), acme, key="b")
    drain()
    job.refresh_from_db()
    after.refresh_from_db()
    assert (job.state, after.state, after.attempt) == ("dead", "succeeded", 1)


def test_a_local_step_that_has_committed_is_done_whatever_follows_its_commit(
    acme: Workspace, ledger: str
) -> None:
    def refuses() -> None:
        raise Transient("after the commit")

    @step.local("book")
    def book(ledger: str) -> None:
        happened(ledger, "book")
        transaction.on_commit(refuses)

    @job_kind("scene.follows", steps=(book,))
    def follows(run: Run, *, ledger: str) -> None:
        with suppress(Transient):
            run(book, ledger)
        run(book, ledger)

    assert ended(follows.s(ledger=ledger), acme).state == "succeeded"
    assert effects(ledger)["book"] == 1


def test_a_local_step_that_changes_its_connection_is_no_success(
    acme: Workspace, ledger: str
) -> None:
    @step.local("book")
    def book() -> None:
        connection.close()
        connection.connect()

    @job_kind("scene.changes", steps=(book,), max_retries=0)
    def changes(run: Run, *, ledger: str) -> None:
        run(book)

    assert ended(changes.s(ledger=ledger), acme).state == "dead"


@pytest.mark.parametrize("where", ["handler", "step"])
def test_a_fork_that_comes_back_does_nothing(acme: Workspace, ledger: str, where: str) -> None:
    parent = os.getpid()
    children: list[int] = []

    def fork() -> None:
        child = os.fork()
        if child:
            children.append(child)

    @step("forking")
    def forking() -> None:
        if where == "step":
            fork()

    @job_kind("scene.forks", steps=(forking, pay, second))
    def forks(run: Run, *, ledger: str) -> None:
        run(forking)
        if where == "handler":
            fork()
        try:
            run(pay, ledger)
            run(second, ledger)
        finally:
            if os.getpid() != parent:
                os._exit(0)
        for child in children:
            os.waitpid(child, 0)

    job = ended(forks.s(ledger=ledger), acme)
    assert (job.state, job.attempt) == ("succeeded", 1)
    assert effects(ledger) == {"pay": 1, "second": 1}


def test_a_fork_that_opens_one_on_the_shared_connection_undoes_no_intent(
    acme: Workspace, ledger: str
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("a file has no session to share")

    @job_kind("scene.shares", steps=(pay,), max_retries=0)
    def shares(run: Run, *, ledger: str) -> None:
        child = os.fork()
        if not child:
            begin()
            os._exit(0)
        os.waitpid(child, 0)
        run(pay, ledger)

    job = ended(shares.s(ledger=ledger), acme)
    assert job.state == "dead"
    assert effects(ledger)["pay"] == 0


def test_a_step_that_only_looks_like_the_declared_one_is_refused(
    acme: Workspace, ledger: str
) -> None:
    """It would run again, where the declared one would not."""
    twin = step("pay")(pay.function)

    @job_kind("scene.twin", steps=(pay,), max_retries=0)
    def twins(run: Run, *, ledger: str) -> None:
        run(twin, ledger)

    assert last_error(ended(twins.s(ledger=ledger), acme)) == "LookupError"
    assert effects(ledger)["pay"] == 0
