"""The last statement of a transaction carries its COMMIT, and Django's bookkeeping stays right."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from tests.integration.kernel.sessions import cut_off
from workspaces import sql
from workspaces.outages import is_lost_connection

pytestmark = pytest.mark.django_db(transaction=True)

ADD = "INSERT INTO kept VALUES (%(n)s)"


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    """One whose rows are checked at once and, for being single, at the COMMIT."""
    sql.execute(
        "CREATE TABLE kept (n int CHECK (n > 0), UNIQUE (n) DEFERRABLE INITIALLY DEFERRED)", {}
    )
    yield
    connection.close()
    sql.execute("DROP TABLE kept", {})


@pytest.fixture
def outside() -> Iterator[psycopg.Connection[tuple[int]]]:
    """Another connection, which sees what is committed."""
    settings = connection.get_connection_params()
    words = {
        name: settings[name] for name in ("host", "port", "dbname", "user") if name in settings
    }
    with psycopg.connect(**words, autocommit=True) as other:
        yield other


def rows(link: psycopg.Connection[tuple[int]]) -> list[int]:
    return [n for (n,) in link.execute("SELECT n FROM kept ORDER BY n")]


def add_two(second: int, ran: list[int]) -> None:
    with transaction.atomic():
        transaction.on_commit(lambda: ran.append(1))
        sql.execute(ADD, {"n": 1})
        sql.execute(ADD, {"n": second}, last=True)


def cut_off_before(which: str) -> None:
    with transaction.atomic():
        if which == "last":
            sql.execute(ADD, {"n": 1})
        cut_off()
        sql.execute(ADD, {"n": 2}, last=which == "last")


def test_the_last_statement_commits_all_and_what_waits_for_the_commit_runs(
    outside: psycopg.Connection[tuple[int]],
) -> None:
    seen = []
    with transaction.atomic():
        sql.execute(ADD, {"n": 1})
        transaction.on_commit(lambda: seen.append(rows(outside)))
        assert rows(outside) == []
        sql.execute(ADD, {"n": 2}, last=True)
        assert rows(outside) == [1, 2]
        assert seen == [], "the block has not ended"
    assert seen == [[1, 2]]
    assert connection.get_autocommit()
    sql.execute(ADD, {"n": 3})
    assert rows(outside) == [1, 2, 3], "and nothing is left open"


def test_one_statement_may_be_first_and_last(outside: psycopg.Connection[tuple[int]]) -> None:
    with transaction.atomic():
        assert sql.execute(f"{ADD} RETURNING n", {"n": 1}, last=True) == [(1,)]
        assert rows(outside) == [1]


def test_the_last_of_an_inner_block_commits_nothing(
    outside: psycopg.Connection[tuple[int]],
) -> None:
    for savepoint in (True, False):
        with transaction.atomic():
            with transaction.atomic(savepoint=savepoint):
                sql.execute(ADD, {"n": 1}, last=True)
            assert rows(outside) == []
            transaction.set_rollback(True)
        assert rows(outside) == []


def test_what_is_to_be_rolled_back_is_not_committed(
    outside: psycopg.Connection[tuple[int]],
) -> None:
    with transaction.atomic():
        transaction.set_rollback(True)
        sql.execute(ADD, {"n": 1}, last=True)
    assert rows(outside) == []


def test_a_last_statement_that_fails_commits_nothing(
    outside: psycopg.Connection[tuple[int]],
) -> None:
    ran: list[int] = []
    with pytest.raises(IntegrityError):
        add_two(-1, ran)
    assert rows(outside) == []
    assert ran == []
    sql.execute(ADD, {"n": 5})
    assert rows(outside) == [5], "and the connection is as good as new"


def test_a_commit_that_fails_is_an_error(outside: psycopg.Connection[tuple[int]]) -> None:
    ran: list[int] = []
    with pytest.raises(IntegrityError):
        add_two(1, ran)
    assert rows(outside) == []
    assert ran == []
    sql.execute(ADD, {"n": 5})
    assert rows(outside) == [5]


@pytest.mark.parametrize("when", ["first", "last"])
def test_a_connection_that_is_lost_meanwhile_is_known_as_lost(when: str) -> None:
    with pytest.raises(OperationalError) as lost:
        cut_off_before(when)
    assert is_lost_connection(lost.value)
    connection.close()
    assert sql.execute("SELECT n FROM kept", {}) == []
