"""Kinds whose time is over while the database works for them: it does not notice by itself."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django.db import connection

from jobs.kinds import Run, job_kind, step
from tests.drills.ledger import happened

LONG = 90.0  # seconds: longer than any test waits


def query(ledger: str) -> None:
    """A query that ends at once, or after a long time while the file beside the ledger is there."""
    happened(ledger, "query")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", [LONG if _is_held(ledger) else 0])


def query_stubbornly(ledger: str) -> None:
    """The same, but it swallows the soft time limit and asks again, as careless code does."""
    while _is_held(ledger):
        with suppress(Exception):
            query(ledger)
        if not connection.in_atomic_block:
            connection.close()


def _is_held(ledger: str) -> bool:
    return Path(f"{ledger}.hold").exists()


asked = step("asked")(query)
booked = step.local("booked")(query)
asked_stubbornly = step("asked_stubbornly")(query_stubbornly)
booked_stubbornly = step.local("booked_stubbornly")(query_stubbornly)


@job_kind(
    "drills.in_sql",
    steps=(asked, booked, asked_stubbornly, booked_stubbornly),
    soft_time_limit=1,
    time_limit=3,
    max_retries=1,
    lease=timedelta(seconds=3),
)
def in_sql(run: Run, *, ledger: str, local: bool = False, stubborn: bool = False) -> None:
    """``local`` is in a transaction that holds the job's row."""
    if stubborn:
        run(booked_stubbornly if local else asked_stubbornly, ledger)
    else:
        run(booked if local else asked, ledger)
