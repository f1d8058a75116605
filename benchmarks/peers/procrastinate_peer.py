"""Procrastinate: a queue in PostgreSQL, whose worker is one asyncio process.

Run as a module it is the worker. *Not told apart:* more processes of fewer jobs each; see
docs/benchmarks.md for what they gave.
"""

import os
import sys

import psycopg
from procrastinate import App, PsycopgConnector

from benchmarks.stamps import mark

URL = os.environ["BENCH_DATABASE"]


async def run() -> None:
    """The measured job."""
    mark()


app = App(connector=PsycopgConnector(conninfo=URL))
noop = app.task(name="noop")(run)


def prepare() -> None:
    """Make Procrastinate's tables."""
    with app.open():
        app.schema_manager.apply_schema()


def clear() -> None:
    """Forget every job."""
    _execute("TRUNCATE procrastinate_jobs CASCADE")


def enqueue(_task: str, count: int) -> None:
    """All at once, the fastest way it has."""
    with app.open():
        noop.batch_defer(*({} for _ in range(count)))


def finished() -> int | None:
    """The jobs it calls succeeded."""
    return _execute("SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'")


def _execute(sql: str) -> int:
    with psycopg.connect(URL, autocommit=True) as connection:
        cursor = connection.execute(sql)
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else 0


if __name__ == "__main__":
    app.run_worker(concurrency=int(sys.argv[1]))
