"""A `local` step and its checkpoint commit together: exactly once, whatever happens around them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, OperationalError, connection
from django.db.models.functions import Now

from jobs.kinds import Kind, Run, Transient, job_kind, step
from jobs.models import Job
from jobs.testing import at_step, attempt, crash_at, drain, lose_lease
from tests.integration.kernel.acting import ended, outcomes, states, tried, waiting
from workspaces.models import Membership, Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


@step.local("book")
def book(name: str) -> dict[str, Any]:
    return {"user": User.objects.create(username=name).pk}


def booking() -> Kind[..., Any]:
    @job_kind("scene.books", steps=(book,))
    def books(run: Run, *, name: str) -> dict[str, Any]:
        return run(book, name)

    return books


def test_function_and_checkpoint_commit_together(acme: Workspace) -> None:
    job = ended(booking().s(name="ana"), acme)
    row = job.steps.get()
    assert (row.effect, row.state, row.intent_at) == ("local", "done", None)
    assert row.output == {"user": User.objects.get().pk}


@pytest.mark.parametrize("when", ["started", "during"])
def test_a_crash_inside_undoes_both_and_the_next_attempt_does_it_once(
    acme: Workspace, when: Any
) -> None:
    job = waiting(booking().s(name="ana"), acme)
    with crash_at(book, when):
        drain()
    in_between = (User.objects.count(), states(job))
    drain()
    job.refresh_from_db()
    assert in_between == (0, {})
    assert (job.state, User.objects.count()) == ("succeeded", 1)


def test_an_error_after_the_write_undoes_it(acme: Workspace) -> None:
    def fail(_: object) -> None:
        raise Transient("after the write")

    job = waiting(booking().s(name="ana"), acme)
    with at_step(book, "during", fail):
        attempt(job)
    undone = (job.state, User.objects.count(), states(job))
    drain()
    job.refresh_from_db()
    assert undone == ("queued", 0, {})
    assert (job.state, User.objects.count()) == ("succeeded", 1)


@pytest.mark.parametrize("output", [object(), "a\x00b", "x" * 70_000])
def test_an_output_that_cannot_be_stored_undoes_the_write(acme: Workspace, output: Any) -> None:
    @step.local("book_oddly")
    def book_oddly() -> Any:
        User.objects.create(username="ana")
        return output

    @job_kind("scene.books_oddly", steps=(book_oddly,))
    def oddly(run: Run) -> None:
        run(book_oddly)

    job = ended(oddly.s(), acme)
    assert (job.state, job.cause, outcomes(job)) == (
        "dead",
        "terminal",
        [("failed", "unclassified")],
    )
    assert (User.objects.count(), states(job)) == (0, {})


def test_what_only_the_commit_refuses_is_not_taken_for_done(acme: Workspace) -> None:
    """Foreign keys are checked at commit: the checkpoint was written, and is gone with the rest."""
    calls: list[int] = []

    @step.local("join")
    def join(user_id: int) -> None:
        calls.append(user_id)
        Membership.objects.create(user_id=user_id, workspace=acme, role="viewer")

    @job_kind("scene.joins", steps=(join,))
    def joins(run: Run) -> str:
        try:
            run(join, 999_999)
        except IntegrityError:
            run(join, User.objects.create(username="ana").pk)
            return "mended"
        return "no"

    job = ended(joins.s(), acme)
    assert len(calls) == 2
    assert (job.state, job.result, states(job)) == ("succeeded", "mended", {"join": "done"})
    assert Membership.objects.count() == 1


def test_a_commit_whose_answer_was_lost_is_found_and_not_done_again(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = waiting(booking().s(name="ana"), acme)

    def lose_the_answer(_: object) -> None:
        def commit() -> None:
            monkeypatch.undo()
            connection.commit()
            raise OperationalError("the connection was lost while committing")

        monkeypatch.setattr(connection, "commit", commit)

    with at_step(book, "during", lose_the_answer):
        attempt(job)
    failed = (job.state, outcomes(job))
    drain()
    job.refresh_from_db()

    assert failed == ("queued", [("failed", "database_unavailable")])
    assert (job.state, User.objects.count()) == ("succeeded", 1)


def test_a_lost_lease_undoes_the_write(acme: Workspace) -> None:
    """The fence is the first statement of the transaction, so nothing of a zombie gets in."""

    @step("warm_up")
    def warm_up() -> None: ...

    @job_kind("scene.books_late", steps=(warm_up, book))
    def late(run: Run) -> None:
        run(warm_up)
        run(book, "ana")

    job = waiting(late.s(), acme)
    with at_step(warm_up, "during", lambda _: lose_lease(job)):
        attempt(job)
    assert (job.state, job.attempt) == ("running", 2)
    assert (User.objects.count(), states(job)) == (0, {})


def test_a_local_step_extends_the_lease_when_it_is_done(acme: Workspace) -> None:
    leases: list[bool] = []

    def is_held() -> bool:
        return Job.objects.filter(lease_until__gt=Now()).exists()

    @step.local("takes long")
    def takes_long() -> None:
        Job.objects.update(lease_until=Now())
        leases.append(is_held())

    @job_kind("scene.leases", steps=(takes_long,))
    def leasing(run: Run) -> None:
        run(takes_long)
        leases.append(is_held())

    tried(leasing.s(), acme)
    assert leases == [False, True]


def test_what_a_local_step_enqueues_stands_or_falls_with_it(acme: Workspace) -> None:
    books = booking()

    @step.local("spawn")
    def spawn(fail: bool) -> str:
        child = books.s(name="bo").enqueue(workspace=acme, key="child", countdown=60)
        if fail:
            raise Transient("after the enqueue")
        return str(child.pk)

    @job_kind("scene.spawns", steps=(spawn,))
    def spawns(run: Run) -> str:
        return run(spawn, run.attempt == 1)

    job = waiting(spawns.s(), acme)
    attempt(job)
    none_yet = type(job).objects.filter(key="child").count()
    attempt(job)
    child = type(job).objects.get(key="child")
    assert none_yet == 0
    assert (job.state, job.result) == ("succeeded", str(child.pk))
