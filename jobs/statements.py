"""How ``jobs.moves`` sends a statement: one text for both databases, prepared, sent again if lost.

Statements are written once, with ``%(name)s`` parameters and a few marks that differ between the
databases: ``@now``, ``@after(seconds)``, ``@until(column)``, ``@json(x)``, ``@time(x)``,
``@greatest``. On PostgreSQL they are prepared, because Django's own cursor binds on the client and
so plans every statement anew (1.50 ms against 1.00 ms a job): ``jobs.prepared`` sends them, in a
transaction a plain psycopg cursor. States are literals, never parameters: a bound one cannot prove
a partial index's predicate.

Kept connections never heal by themselves, and a worker sends none of Django's request signals that
would close them, so every statement outside a transaction is sent again on a new connection when
the old one turns out dead. *Hole:* a statement whose commit was done but whose answer was lost is
sent twice; each statement of ``jobs.moves`` says what that means for it.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import psycopg
from django.db import (
    DEFAULT_DB_ALIAS,
    InterfaceError,
    OperationalError,
    connection,
    connections,
    transaction,
)

from jobs import prepared

T = TypeVar("T")
Row = Sequence[Any]

UNREACHABLE = (OperationalError, InterfaceError)
_PAUSES = (0.0, 0.2, 1.0)
_CONTENTION = frozenset({"40001", "40P01"})  # serialisation failure, deadlock
_MARK = re.compile(r"@(now|after|until|json|time|uuid|greatest)\b(?:\((\w+)\))?")
# To the millisecond, as Django's own Now(): equal moments must compare equal as texts.
_SQLITE_FORM = "'%%Y-%%m-%%d %%H:%%M:%%f'"
_POSTGRESQL = {
    "now": "statement_timestamp()",
    "after": "(statement_timestamp() + %({0})s * interval '1 second')",
    "until": "EXTRACT(EPOCH FROM {0} - statement_timestamp())::float8",
    "json": "%({0})s::jsonb",
    "time": "%({0})s::timestamptz",
    "uuid": "%({0})s::uuid",
    "greatest": "greatest",
}
_SQLITE = {
    "now": f"STRFTIME({_SQLITE_FORM}, 'NOW')",
    "after": f"STRFTIME({_SQLITE_FORM}, 'NOW', %({{0}})s || ' seconds')",
    "until": "((julianday({0}) - julianday('now')) * 86400.0)",
    "json": "%({0})s",
    "time": "%({0})s",
    "uuid": "%({0})s",
    "greatest": "max",
}


@dataclass(frozen=True)
class Fenced:
    """An update of the job row, and a write that depends on it having matched.

    One statement on PostgreSQL. On SQLite, which has no data-modifying CTEs, two in one
    transaction. ``child`` reads the updated row as ``j``; ``answer`` lists what is returned.
    """

    update: str
    answer: str
    child: str = ""

    def send(self, params: Mapping[str, Any]) -> Row | None:
        """The answer, or None where the update matched no row."""
        if connection.vendor == "postgresql":
            rows = send(self._joined, params)
            return rows[0] if rows else None
        return again(lambda: self._one_by_one(params))

    @cached_property
    def _joined(self) -> str:
        if not self.child:
            return f"{self.update} RETURNING {self.answer}"
        child = f"c AS ({self.child} RETURNING 1)"
        return f"WITH j AS ({self.update} RETURNING *), {child} SELECT {self.answer} FROM j"

    def _one_by_one(self, params: Mapping[str, Any]) -> Row | None:
        with transaction.atomic():
            rows = _execute(f"{self.update} RETURNING {self.answer}", params)
            if rows and self.child:
                chosen = "WITH j AS (SELECT * FROM jobs_job WHERE id = @uuid(id)) "
                _execute(chosen + self.child, params)
        return rows[0] if rows else None


def send(sql: str, params: Mapping[str, Any]) -> list[Row]:
    """Send one statement; outside a transaction, again on a new connection if it was lost.

    Returns the rows, or an empty list for a statement that returns none. Raises Django's
    ``OperationalError`` or ``InterfaceError`` when the database stays out of reach for 1.2 s.
    """
    return again(lambda: _execute(sql, params))


def again(work: Callable[[], T], pauses: Sequence[float] = _PAUSES) -> T:
    """Do ``work``; outside a transaction repeat it on a new connection after each pause."""
    if connection.in_atomic_block:
        return work()
    for pause in pauses:
        try:
            return work()
        except UNREACHABLE as error:
            if not _worth_repeating(error):
                raise
        time.sleep(pause)  # noqa: TID251  bounded: 1.2 s in all
    return work()


def _worth_repeating(error: Exception) -> bool:
    """Whether the connection is lost (it is closed then), or the statement fell to a deadlock.

    A lock that is not available in time, for one, is an answer and no lost connection.
    """
    sqlstate = getattr(error.__cause__, "sqlstate", None)
    if sqlstate in _CONTENTION:
        return True
    if sqlstate is not None and not sqlstate.startswith(("08", "57P")):
        return False
    connection.close()
    return True


def bound_waiting(seconds: float) -> None:
    """Let no statement of this transaction wait longer for a lock (PostgreSQL only).

    Raises nothing itself: the statement that would wait longer raises OperationalError.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{seconds}s"])


def persist(work: Callable[[], T], seconds: float) -> T:
    """Do ``work``, repeating it for ``seconds`` while the database is out of reach.

    For writes that must not be given up while their fence may still hold. ``work`` must be safe
    to repeat after a commit whose answer was lost.
    """
    until = time.monotonic() + seconds
    pause = 0.1
    while True:
        try:
            return work()
        except UNREACHABLE as error:
            if connection.in_atomic_block or time.monotonic() + pause > until:
                raise
            if not _worth_repeating(error):
                raise
        time.sleep(pause)  # noqa: TID251  bounded by the caller
        pause = min(2.0, pause * 2)


def _execute(sql: str, params: Mapping[str, Any]) -> list[Row]:
    database = connections[DEFAULT_DB_ALIAS]  # ``connection`` looks this up at each use
    text = _rendered(sql, database.vendor)
    if database.vendor == "postgresql":
        with database.wrap_database_errors:
            database.ensure_connection()
            if prepared.serves(database.connection):
                return prepared.send(database.connection, text, params)
            cursor = psycopg.Cursor(database.connection)
            cursor.execute(text, params)
            return [] if cursor.rownumber is None else cursor.fetchall()
    with database.cursor() as wrapped:
        wrapped.execute(text, {name: _sqlite_value(value) for name, value in params.items()})
        return wrapped.fetchall() if wrapped.description else []


@lru_cache(maxsize=256)
def _rendered(sql: str, vendor: str) -> str:
    marks = _POSTGRESQL if vendor == "postgresql" else _SQLITE
    return _MARK.sub(lambda m: marks[m[1]].replace("{0}", m[2] or ""), sql)


def as_uuid(value: Any) -> uuid.UUID:
    """An id as either database returns it."""
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


def _sqlite_value(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return value.hex  # str(uuid) silently matches nothing: Django stores the hex form
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value
