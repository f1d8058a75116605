"""One text of a statement for both databases, and what is sent again when a connection is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.utils import DatabaseError, IntegrityError, InternalError

from jobs import statements
from jobs.models import Job
from jobs.statements import Fenced, again, persist, send
from tests.drills.kinds import noop
from tests.integration.kernel.acting import waiting
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are for a database that comes back; here it is there at once."""
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None)
    monkeypatch.setattr(statements, "time", clock)


def moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value + "+00:00")


def test_what_begins_now_has_begun_now() -> None:
    """Compared as texts, the same moment in two forms would be before itself."""
    for _ in range(200):
        assert send("SELECT @after(none) <= @now", {"none": 0.0})[0][0]


@pytest.mark.parametrize("seconds", [0.0, 0.5, 30.0, 86400.0, 1e9])
def test_a_moment_ahead_is_so_many_seconds_from_now(seconds: float) -> None:
    now, ahead = send("SELECT @now, @after(wait)", {"wait": seconds})[0]
    assert abs((moment(ahead) - moment(now)).total_seconds() - seconds) < 0.01
    assert abs((moment(now) - datetime.now(UTC)).total_seconds()) < 60


def test_a_child_is_written_only_where_its_parent_matched(acme: Workspace) -> None:
    job = waiting(noop.s(), acme)
    fenced = Fenced(
        "UPDATE jobs_job SET worker = 'w' WHERE id = @uuid(id) AND state = %(state)s",
        "worker, state",
        "INSERT INTO jobs_step (job_id, name, effect, state, attempt)"
        " SELECT j.id, 's', 'once', 'started', 1 FROM j WHERE true",
    )
    assert fenced.send({"id": job.pk, "state": "running"}) is None
    assert not job.steps.exists()
    assert fenced.send({"id": job.pk, "state": "queued"}) == ("w", "queued")
    assert job.steps.get().name == "s"


def test_a_statement_that_violates_a_rule_is_not_sent_again(acme: Workspace) -> None:
    job = waiting(noop.s(), acme)
    with pytest.raises(IntegrityError):
        send("UPDATE jobs_job SET state = 'dead' WHERE id = @uuid(id)", {"id": job.pk})
    assert Job.objects.get(pk=job.pk).state == "queued"


class Flaky:
    """Work that fails with ``error`` so many times before it succeeds."""

    def __init__(self, times: int, error: Callable[[], Exception]) -> None:
        self.left, self.error, self.calls = times, error, 0

    def __call__(self) -> str:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self.error()
        return "done"


def lost() -> Exception:
    return OperationalError("server closed the connection unexpectedly")


def with_state(cls: type[psycopg.Error]) -> Callable[[], Exception]:
    def made() -> Exception:
        error = OperationalError("it said so")
        error.__cause__ = cls("it said so")
        return error

    return made


@pytest.mark.parametrize("error", [lost, lambda: InterfaceError("connection already closed")])
def test_a_lost_connection_is_closed_and_the_statement_sent_again(
    error: Callable[[], Exception],
) -> None:
    connection.ensure_connection()
    work = Flaky(3, error)
    assert (again(work), work.calls) == ("done", 4)
    assert connection.connection is None


def test_a_database_that_stays_away_is_given_up_after_four_tries() -> None:
    work = Flaky(99, lost)
    with pytest.raises(OperationalError):
        again(work)
    assert work.calls == 4


@pytest.mark.parametrize(
    "cls",
    [
        psycopg.errors.DeadlockDetected,
        psycopg.errors.SerializationFailure,
        psycopg.errors.DiskFull,
        psycopg.errors.OutOfMemory,
        psycopg.errors.IoError,
    ],
)
def test_contention_and_want_of_room_are_tried_again_on_the_same_connection(
    cls: type[psycopg.Error],
) -> None:
    connection.ensure_connection()
    kept, work = connection.connection, Flaky(2, with_state(cls))
    assert (again(work), work.calls) == ("done", 3)
    assert (persist(Flaky(7, with_state(cls)), 60), connection.connection) == ("done", kept)


@pytest.mark.parametrize(
    "cls",
    [
        psycopg.errors.AdminShutdown,
        psycopg.errors.ConnectionFailure,
        psycopg.errors.ReadOnlySqlTransaction,
    ],
)
def test_a_server_that_says_goodbye_or_became_a_replica_is_asked_again(
    cls: type[psycopg.Error],
) -> None:
    """On a new connection, which may lead to another server."""
    connection.ensure_connection()
    assert again(Flaky(1, with_state(cls))) == "done"
    assert connection.connection is None


@pytest.mark.parametrize("cls", [DatabaseError, InternalError])
def test_an_error_without_a_state_that_is_none_of_a_connection_is_not_repeated(
    cls: type[Exception],
) -> None:
    work = Flaky(1, lambda: cls("the cursor already closed"))
    with pytest.raises(cls):
        again(work)
    assert work.calls == 1


@pytest.mark.parametrize("cls", [psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled])
def test_an_answer_is_an_answer(cls: type[psycopg.Error]) -> None:
    for retrying in (again, lambda work: persist(work, 60)):
        work = Flaky(1, with_state(cls))
        with pytest.raises(OperationalError):
            retrying(work)
        assert work.calls == 1


def test_inside_a_transaction_nothing_is_sent_again() -> None:
    """What was written before in it is gone with the connection."""
    for retrying in (again, lambda work: persist(work, 60)):
        work = Flaky(1, lost)
        with pytest.raises(OperationalError), transaction.atomic():
            retrying(work)
        assert work.calls == 1


def test_a_write_that_must_not_be_given_up_is_tried_for_as_long_as_it_may() -> None:
    assert persist(Flaky(7, lost), 60) == "done"
    work = Flaky(99, lost)
    with pytest.raises(OperationalError):
        persist(work, 0.0)
    assert work.calls == 1


def test_other_errors_are_nobodys_business_here() -> None:
    for retrying in (again, lambda work: persist(work, 60)):
        work = Flaky(1, lambda: ValueError("of the author"))
        with pytest.raises(ValueError, match="of the author"):
            retrying(work)
        assert work.calls == 1
