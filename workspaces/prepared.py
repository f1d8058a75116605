"""Sends a statement by its prepared name, straight through libpq.

A cursor of psycopg does more than one statement of a known shape needs, which was a fifth of what a
worker's process spends on a job. Values are bound, types are chosen and rows are read by psycopg's
own adapters, and a signal ends the wait as it does in a cursor: what comes back and what is raised
is the same. *Hole:* what was prepared stays so until the connection ends; callers send few texts,
each in few types.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Any

from psycopg import Connection, errors, generators
from psycopg.abc import Buffer
from psycopg.abc import Transformer as Adapters
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

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

    def send(self, text: Text, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows; raises what a cursor would."""
        values = self.adapters.dump_sequence([params[name] for name in text.names], text.formats)
        key = text.query, self.adapters.types or ()
        try:
            result = self._executed(self.prepared.get(key) or self._prepare(key), values)
        except errors.InvalidSqlStatementName:  # psycopg forgets all of them after a rollback
            self.prepared.clear()
            result = self._executed(self._prepare(key), values)
        if result.status == ExecStatus.COMMAND_OK:
            return []
        self.adapters.set_pgresult(result)
        return self.adapters.load_rows(0, result.ntuples, tuple)

    def _prepare(self, key: Key) -> bytes:
        name = f"firedoor_{next(_numbers)}".encode()
        self.connection.pgconn.send_prepare(name, *key)
        self._answer()
        self.prepared[key] = name
        return name

    def _executed(self, name: bytes, values: Sequence[Buffer | None]) -> PGresult:
        self.connection.pgconn.send_query_prepared(name, values, self.adapters.formats)
        return self._answer()

    def _answer(self) -> PGresult:
        link = self.connection.pgconn
        result: PGresult = self.connection.wait(generators.execute(link))[-1]
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            raise errors.error_from_result(result, encoding=self.adapters.encoding)
        return result


def serves(connection: Connection[Any]) -> bool:
    """Whether statements can be sent so: no transaction to begin, and preparing is not forbidden.

    Forbidden it is by ``prepare_threshold: None`` in DATABASES' OPTIONS, for poolers that cannot.
    """
    return connection.autocommit and connection.prepare_threshold is not None


def send(connection: Connection[Any], sql: str, params: Mapping[str, Any]) -> list[Any]:
    """Send one statement over a connection that belongs to this thread alone; its rows."""
    session: Session | None = getattr(_local, "session", None)
    if session is None or session.connection is not connection:
        session = _local.session = Session(connection, Transformer(connection))
    return session.send(_text(sql), params)


@lru_cache(maxsize=256)
def _text(sql: str) -> Text:
    names = tuple(dict.fromkeys(_PARAM.findall(sql)))
    query = _PARAM.sub(lambda m: f"${names.index(m[1]) + 1}", sql).replace("%%", "%")
    return Text(query.encode(), names, (PyFormat.AUTO,) * len(names))
