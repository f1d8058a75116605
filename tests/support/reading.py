"""How many rows and index entries PostgreSQL read: what a thing costs, without a clock."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection

_READ = """SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)
  + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)"""


def rows_read(work: Callable[[], object], *tables: str) -> int:
    """What ``work`` read on this connection, once ``tables`` are vacuumed and analysed.

    An entry of an index counts as a row. Others of the same database must rest meanwhile.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"VACUUM (ANALYZE) {', '.join(tables)}")
    before = _read()
    work()
    return _read() - before


def _read() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT 1")  # its end is what flushes
        cursor.execute(_READ)
        return int(cursor.fetchone()[0])
