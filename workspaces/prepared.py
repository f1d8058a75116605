"""Sends a statement by its prepared name, straight through libpq.

A cursor of psycopg does more than one statement of a known shape needs, which was a fifth of what a
worker's process spends on a job. Values are bound, types are chosen and rows are read by psycopg's
own adapters, and a signal ends the wait as it does in a cursor: what comes back and what is raised
is the same. The first statement of a transaction goes out together with its BEGIN, and one that is
said to be the last together with the COMMIT: two round trips less.
*Holes:* what was prepared stays so until the connection ends; callers send few texts, each in few
types. Whoever deallocates all of it by hand within a transaction loses that transaction.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Any

from psycopg import ClientCursor, Connection, errors, generators
from psycopg.abc import Buffer, PQGen
from psycopg.abc import Transformer as Adapters
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

_PARAM = re.compile(r"%\((\w+)\)s")
_local = threading.local()
_numbers = count()

Key = tuple[bytes, tuple[int, ...]]


@dataclass(frozen=True)
class Text:
    """A statement as PostgreSQL reads it: ``$1`` for the first name, and so on."""

    query: bytes
    names: tuple[str, ...]
    formats: tuple[PyFormat, ...]


@dataclass
class Session:
    """What one thread has prepared on its connection."""

    connection: Connection[Any]
    adapters: Adapters
    prepared: dict[Key, bytes] = field(default_factory=dict)

    def send(self, text: Text, params: Mapping[str, Any], *, commit: bool) -> list[tuple[Any, ...]]:
        """The rows; raises what a cursor would. Begins a transaction where a cursor would."""
        values = self.adapters.dump_sequence([params[name] for name in text.names], text.formats)
        key = text.query, self.adapters.types or ()
        begin = not self.connection.autocommit and _is_idle(self.connection)
        try:
            result = self._executed(key, values, begin=begin, commit=commit)
        except errors.InvalidSqlStatementName:  # somebody deallocated all of them
            self.prepared.clear()
            if begin:
                self.connection.rollback()
            elif not self.connection.autocommit:
                raise
            result = self._executed(key, values, begin=begin, commit=commit)
        if result.status == ExecStatus.COMMAND_OK:
            return []
        self.adapters.set_pgresult(result)
        return self.adapters.load_rows(0, result.ntuples, tuple)

    def _executed(
        self, key: Key, values: Sequence[Buffer | None], *, begin: bool, commit: bool
    ) -> PGresult:
        name = self.prepared.get(key) or self._prepare(key)
        if begin or commit:
            return self._together(name, values, begin=begin, commit=commit)
        self.connection.pgconn.send_query_prepared(name, values, self.adapters.formats)
        return self._answered(generators.execute(self.connection.pgconn))

    def _prepare(self, key: Key) -> bytes:
        name = f"firedoor_{next(_numbers)}".encode()
        self.connection.pgconn.send_prepare(name, *key)
        self._answered(generators.execute(self.connection.pgconn))
        self.prepared[key] = name
        return name

    def _together(
        self, name: bytes, values: Sequence[Buffer | None], *, begin: bool, commit: bool
    ) -> PGresult:
        """The statement with its BEGIN or COMMIT, in one round trip.

        What follows an error is not done: a statement that fails is not committed.
        """
        link = self.connection.pgconn
        link.enter_pipeline_mode()
        try:
            if begin:
                link.send_query_params(self.connection._get_tx_start_command(), None)
            link.send_query_prepared(name, values, self.adapters.formats)
            if commit:
                link.send_query_params(b"COMMIT", None)
            link.pipeline_sync()
            answers = self.connection.wait(_answers(link))
        finally:
            self._leave_pipeline()
        checked = [self._checked(results) for results in answers]
        if len(checked) < 1 + begin + commit:
            raise errors.OperationalError("the connection is lost")
        return checked[begin]

    def _leave_pipeline(self) -> None:
        """Where that cannot be, since answers are missing, the connection is of no more use."""
        try:
            self.connection.pgconn.exit_pipeline_mode()
        except errors.Error:
            self.connection.close()

    def _answered(self, asking: PQGen[list[PGresult]]) -> PGresult:
        return self._checked(self.connection.wait(asking))

    def _checked(self, results: Sequence[PGresult]) -> PGresult:
        result = results[-1]
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            raise errors.error_from_result(result, encoding=self.adapters.encoding)
        return result


def _answers(link: PGconn) -> PQGen[list[list[PGresult]]]:
    """What each statement of a pipeline was answered, to its end or that of the connection."""
    answers = []
    results = yield from generators.execute(link)
    while results and results[-1].status != ExecStatus.PIPELINE_SYNC:
        answers.append(results)
        results = yield from generators.fetch_many(link)
    return answers


def _is_idle(connection: Connection[Any]) -> bool:
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


def serves(connection: Connection[Any]) -> bool:
    """Whether statements can be sent so: preparing is not forbidden, nor done by others as well.

    Forbidden it is by ``prepare_threshold: None`` in DATABASES' OPTIONS, for poolers that cannot.
    Where Django's own cursors prepare (``server_side_binding``), each rollback deallocates all.
    """
    if connection.prepare_threshold is None:
        return False
    return connection.autocommit or issubclass(connection.cursor_factory, ClientCursor)


def send(
    connection: Connection[Any], sql: str, params: Mapping[str, Any], *, commit: bool = False
) -> list[Any]:
    """Send one statement over a connection that belongs to this thread alone; its rows.

    ``commit`` ends the transaction with it.
    """
    session: Session | None = getattr(_local, "session", None)
    if session is None or session.connection is not connection:
        session = _local.session = Session(connection, Transformer(connection))
    return session.send(_text(sql), params, commit=commit)


@lru_cache(maxsize=256)
def _text(sql: str) -> Text:
    names = tuple(dict.fromkeys(_PARAM.findall(sql)))
    query = _PARAM.sub(lambda m: f"${names.index(m[1]) + 1}", sql).replace("%%", "%")
    return Text(query.encode(), names, (PyFormat.AUTO,) * len(names))
