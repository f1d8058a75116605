"""Statements by hand, for what is asked too often to be put together anew each time.

They are written once for both databases, with ``%(name)s`` parameters and a few marks that differ:
``@now``, ``@after(seconds)``, ``@until(column)``, ``@json(x)``, ``@time(x)``, ``@greatest``. On
PostgreSQL they are prepared, because Django's own cursor binds on the client and so plans every
statement anew (1.50 ms against 1.00 ms a job); ``workspaces.prepared`` sends them, or a plain
psycopg cursor where that may not.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from itertools import chain
from typing import Any, TypeVar

import psycopg
from django.db import (
    DEFAULT_DB_ALIAS,
    Error,
    InternalError,
    OperationalError,
    connection,
    connections,
    models,
)
from django.db.backends.base.base import BaseDatabaseWrapper

from workspaces import prepared
from workspaces.outages import READ_ONLY, is_lost_connection

Row = Sequence[Any]
M = TypeVar("M", bound=models.Model)
Names = tuple[str, ...] | None
Converter = tuple[int, Any, Callable[[Any, Any, Any], Any]]

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


class PipelineOpen(RuntimeError):
    """Code left psycopg's pipeline on, in which a statement gets no answer."""


_NO_ANSWER = (
    "Nothing was sent: the connection is in a pipeline of psycopg, where no answer comes before it "
    "ends. Leave the pipeline before the kernel is called again."
)


def execute(sql: str, params: Mapping[str, Any], *, last: bool = False) -> list[Row]:
    """Send one statement; its rows, or an empty list where it returns none.

    Values are as the database has them: ``made`` turns whole rows into a model's objects.
    ``last`` says that nothing follows it in the ``atomic`` block around it: it is sent together
    with the COMMIT, which Django then finds done. Raises Django's errors, and PipelineOpen; where
    the database takes no writes, OperationalError.
    """
    try:
        return _sent(sql, params, last=last)
    except InternalError as error:
        if getattr(error.__cause__, "sqlstate", None) != READ_ONLY:
            raise
        # No fault of the statement's, and over when the outage is, as all of those errors.
        raise OperationalError(*error.args) from error.__cause__


def _sent(sql: str, params: Mapping[str, Any], *, last: bool) -> list[Row]:
    database = connections[DEFAULT_DB_ALIAS]  # ``connection`` looks this up at each use
    text = _rendered(sql, database.vendor)
    if database.vendor == "postgresql":
        with database.wrap_database_errors:
            database.ensure_connection()
            if database.connection.pgconn.pipeline_status:
                raise PipelineOpen(_NO_ANSWER)
            if prepared.serves(database.connection):
                commit = last and _is_outermost(database)
                return prepared.send(database.connection, text, params, commit=commit)
            cursor = psycopg.Cursor(database.connection)
            cursor.execute(text, params)
            return [] if cursor.rownumber is None else cursor.fetchall()
    with database.cursor() as wrapped:
        wrapped.execute(text, {name: _sqlite_value(value) for name, value in params.items()})
        return wrapped.fetchall() if wrapped.description else []


def _is_outermost(database: BaseDatabaseWrapper) -> bool:
    """Whether the end of the innermost block would commit: no savepoint, no rollback asked for."""
    ends = database.in_atomic_block and database.commit_on_exit and not database.needs_rollback
    return ends and not database.savepoint_ids


def execute_first(sql: str, params: Mapping[str, Any]) -> list[Row]:
    """``execute`` as the first statement of a request, whose kept connection may be lost by now.

    It is sent again on a new one then. So it stands for Django's own check of the connection, which
    would cost every request a round trip; the rest of the request does without.
    """
    try:
        rows = execute(sql, params)
    except Error as error:
        if connection.in_atomic_block or not is_lost_connection(error):
            raise
        connection.close()
        rows = execute(sql, params)
    connection.health_check_done = True  # type: ignore[attr-defined]  # its stubs lack it
    return rows


def columns(model: type[models.Model], table: str = "", only: Names = None) -> str:
    """Columns of a model's table, as ``made`` reads them; ``table`` is its name in the text.

    All of them, or those of the fields named.
    """
    prefix = f"{table}." if table else ""
    return ", ".join(f'{prefix}"{field.column}"' for field in _fields(model, only))


def made(model: type[M], rows: Iterable[Row], only: Names = None) -> list[M]:
    """The objects that rows of ``columns`` are; fields that are not among them are deferred."""
    names, converters = _reading(model, connection.vendor, only)
    found = []
    for row in rows:
        values = list(row)
        for place, expression, convert in converters:
            values[place] = convert(values[place], expression, connection)
        found.append(model.from_db(DEFAULT_DB_ALIAS, names, values))
    return found


@cache
def _reading(
    model: type[models.Model], _vendor: str, only: Names
) -> tuple[list[str], list[Converter]]:
    """The names of a model's fields, and what turns a column into what Python has for it."""
    converters: list[Converter] = []
    for place, field in enumerate(_fields(model, only)):
        column = field.get_col(model._meta.db_table)
        all_of_them = connection.ops.get_db_converters(column), column.get_db_converters(connection)
        converters += [(place, column, convert) for convert in chain(*all_of_them)]
    return [field.attname for field in _fields(model, only)], converters


def _fields(model: type[models.Model], only: Names) -> list[Any]:
    """In the order of the model, as ``from_db`` wants them."""
    return [f for f in model._meta.concrete_fields if only is None or f.attname in only]


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
