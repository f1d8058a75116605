"""Statements that are sent by their prepared names behave as those of a cursor do."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from types import FrameType
from typing import Any

import psycopg
import pytest
from django.db import Error, connection, transaction

from jobs.statements import send
from tests.integration.kernel.sessions import cut_off
from workspaces import prepared

pytestmark = pytest.mark.django_db(transaction=True)

VALUES: list[Any] = [None, True, 7, 70_000, 2**40, 1.5, "it's", '{"a": "%s"}', ["a", "b"], [1, 2]]


@pytest.fixture
def raw() -> psycopg.Connection[Any]:
    connection.ensure_connection()
    assert connection.connection is not None
    found: psycopg.Connection[Any] = connection.connection
    assert prepared.serves(found), "the workers' way is the one under test"
    return found


def names(raw: psycopg.Connection[Any]) -> set[str]:
    """What is prepared on the connection under our names."""
    rows = raw.execute("SELECT name FROM pg_prepared_statements WHERE name LIKE 'firedoor_%'")
    return {name for (name,) in rows}


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_go_and_come_as_they_do_through_a_cursor(
    raw: psycopg.Connection[Any], value: object
) -> None:
    sql, params = "SELECT %(value)s, %(other)s, %(value)s", {"value": value, "other": 1}
    assert prepared.send(raw, sql, params) == psycopg.Cursor(raw).execute(sql, params).fetchall()


def test_a_statement_is_prepared_once_for_each_text_and_types(
    raw: psycopg.Connection[Any],
) -> None:
    before = names(raw)
    for number in (1, 2, 3):
        assert prepared.send(raw, "SELECT %(n)s + 40", {"n": number}) == [(number + 40,)]
    assert len(names(raw) - before) == 1
    prepared.send(raw, "SELECT %(n)s + 40", {"n": 2**40})
    assert len(names(raw) - before) == 2


def test_a_rollback_forgets_nothing_that_was_prepared(raw: psycopg.Connection[Any]) -> None:
    send("SELECT %(n)s + 41", {"n": 1})
    kept = names(raw)
    with transaction.atomic():
        send("SELECT %(n)s + 41", {"n": 1})
        with suppress(Error), transaction.atomic():
            send("SELECT 1 / %(n)s", {"n": 0})
        assert send("SELECT %(n)s + 41", {"n": 1}) == [(42,)], "the savepoint is rolled back"
        transaction.set_rollback(True)
    raw.execute("SELECT 1")  # with this psycopg would tell the server to forget its own
    assert names(raw) > kept


@pytest.mark.parametrize("within", [False, True], ids=["alone", "first in a transaction"])
def test_what_somebody_deallocated_is_prepared_again(
    raw: psycopg.Connection[Any], within: bool
) -> None:
    assert send("SELECT %(n)s + 41", {"n": 1}) == [(42,)]
    raw.execute("DEALLOCATE ALL")
    with transaction.atomic() if within else nullcontext():
        assert send("SELECT %(n)s + 41", {"n": 1}) == [(42,)]
        assert send("SELECT %(n)s + 41", {"n": 2}) == [(43,)]


def test_a_new_connection_starts_with_nothing_prepared(raw: psycopg.Connection[Any]) -> None:
    assert send("SELECT %(n)s + 42", {"n": 1}) == [(43,)]
    cut_off()
    assert send("SELECT %(n)s + 42", {"n": 1}) == [(43,)], "sent again on a new connection"
    assert connection.connection is not raw


def test_a_refusal_is_the_error_that_a_cursor_would_raise(raw: psycopg.Connection[Any]) -> None:
    for sql in ("SELECT 1 / %(n)s", "SELECT nothing FROM nowhere WHERE 0 = %(n)s"):
        with pytest.raises(psycopg.Error) as plain:
            psycopg.Cursor(raw).execute(sql, {"n": 0})
        with pytest.raises(psycopg.Error) as ours:
            prepared.send(raw, sql, {"n": 0})
        assert (type(ours.value), str(ours.value)) == (type(plain.value), str(plain.value))
        assert ours.value.sqlstate == plain.value.sqlstate
        assert prepared.send(raw, "SELECT 1", {}) == [(1,)], "and the connection is as good as new"


@pytest.mark.parametrize("why", ["preparing is forbidden", "others prepare as well"])
def test_a_cursor_is_used_where_it_must(
    raw: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    before = names(raw)
    if why == "preparing is forbidden":
        monkeypatch.setattr(raw, "prepare_threshold", None)
    else:
        monkeypatch.setattr(raw, "cursor_factory", psycopg.Cursor)
    with transaction.atomic():
        assert not prepared.serves(raw)
        assert send("SELECT %(n)s + 43", {"n": 1}) == [(44,)]
    assert names(raw) == before


class TimeIsUp(Exception):
    pass


@pytest.fixture
def limit() -> Iterator[None]:
    """What Celery's soft time limit is: a signal whose handler raises."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("autocommit", [True, False], ids=["alone", "with its BEGIN"])
def test_a_signal_ends_the_wait_for_the_database(
    raw: psycopg.Connection[Any], limit: None, autocommit: bool
) -> None:
    left = raw.info.backend_pid
    raw.autocommit = autocommit
    with pytest.raises(TimeIsUp):
        prepared.send(raw, "SELECT pg_sleep(%(seconds)s)", {"seconds": 60.0})
    connection.close()
    assert send("SELECT pg_terminate_backend(%(pid)s, 20000)", {"pid": left}) == [(True,)]
