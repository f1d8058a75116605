"""Whether a database error is about the database at this moment, or a mistake of ours.

Django calls both `OperationalError`: on SQLite even a missing table is one.
"""

from __future__ import annotations

from typing import Final

import psycopg
from django.db import Error, InterfaceError, OperationalError, connection

CONTENTION: Final = frozenset({"40001", "40P01"})
"""Serialisation failures and deadlocks: nothing was done, and a repetition may well succeed."""

_LOCK_NOT_AVAILABLE = "55P03"
READ_ONLY: Final = "25006"
"""Writes are refused: a primary that became a replica, or a full one whose provider locked it."""

NO_ROOM: Final = ("53", "58")
"""Classes of a server without disk, memory or connections, or with a machine that fails it."""

_NOT_MIGRATED = ("42P01", "42703")  # no such table, no such column
_CONNECTION = ("08", "57P")  # no connection any more, or the server shuts down
_BUSY = ("40", "57", *NO_ROOM)  # contention, cancelled
_REFUSED = (_LOCK_NOT_AVAILABLE, READ_ONLY)
_SQLITE = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_FULL")


def is_outage(error: Exception) -> bool:
    """Whether the database is out of reach, busy, full or locked; anything else is our fault."""
    if not isinstance(error, Error):
        return False
    state = _state_of(error)
    if state is not None:
        return state.startswith((*_CONNECTION, *_BUSY)) or state in _REFUSED
    name = getattr(error.__cause__, "sqlite_errorname", None)
    if name is not None:
        return str(name).startswith(_SQLITE)
    return is_lost_connection(error)


def is_lost_connection(error: Exception) -> bool:
    """Whether nobody answered any more: what was sent last may have been done or not."""
    state = _state_of(error)
    if state is not None:
        return state.startswith(_CONNECTION)
    if isinstance(error, OperationalError):
        return isinstance(error.__cause__, psycopg.OperationalError)
    return isinstance(error, InterfaceError) and _is_closed()


def is_unmigrated(error: Exception) -> bool:
    """Whether the code asks for a table or a column that this database does not have."""
    no_such = ("no such table", "no such column")
    return _state_of(error) in _NOT_MIGRATED or str(error).startswith(no_such)


def is_contention(error: Exception) -> bool:
    """Whether somebody else was in the way, so that trying again at once is worth it."""
    return _state_of(error) in CONTENTION


def is_lock_timeout(error: Exception) -> bool:
    """Whether a lock was not to be had in the time that was allowed."""
    return _state_of(error) == _LOCK_NOT_AVAILABLE


def _state_of(error: Exception) -> str | None:
    state: str | None = getattr(error.__cause__, "sqlstate", None)
    return state


def _is_closed() -> bool:
    return connection.vendor == "postgresql" and (
        connection.connection is None or connection.connection.closed
    )
