"""Another database session that holds a row, or breaks on one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from django.db import connection, transaction

from jobs.models import Job


@contextmanager
def held_elsewhere(job: Job) -> Iterator[None]:
    """Another session holds the job's row, as a worker that is frozen in a local step does.

    PostgreSQL only: SQLite has no row locks.
    """
    holds, goes_on = Event(), Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                Job.objects.select_for_update().get(pk=job.pk)
                holds.set()
                goes_on.wait(60)
        finally:
            connection.close()

    thread = Thread(target=hold)
    thread.start()
    try:
        assert holds.wait(20)
        yield
    finally:
        goes_on.set()
        thread.join(20)


def at_once(*works: Callable[[], object]) -> list[object]:
    """Do all works in threads of their own, begun together; what each returned or raised."""
    ready = Event()
    results: list[object] = [None] * len(works)

    def run(index: int, work: Callable[[], object]) -> None:
        ready.wait(20)
        try:
            results[index] = work()
        except Exception as error:  # noqa: BLE001  handed to the test
            results[index] = error
        finally:
            connection.close()

    threads = [Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    ready.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


def cut_off(_: object = None) -> None:
    """End this session from another one, as a restart of the server does."""
    pid = connection.connection.info.backend_pid

    def end() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])

    assert at_once(end) == [None]


@contextmanager
def poisoned(job: Job) -> Iterator[None]:
    """Let the database refuse every update of one row, as a broken index or trigger would."""
    with connection.cursor() as cursor:
        for statement in _POISON[connection.vendor]:
            cursor.execute(statement.format(id=_literal(job)))
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(_CURE[connection.vendor])


def _literal(job: Job) -> str:
    return str(job.pk) if connection.vendor == "postgresql" else job.pk.hex


_POISON = {
    "postgresql": (
        "CREATE OR REPLACE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'poisoned'; END $$",
        "CREATE TRIGGER poison BEFORE UPDATE ON jobs_job FOR EACH ROW"
        " WHEN (OLD.id = '{id}') EXECUTE FUNCTION poison()",
    ),
    "sqlite": (
        "CREATE TRIGGER poison BEFORE UPDATE ON jobs_job WHEN OLD.id = '{id}'"
        " BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
    ),
}
_CURE = {
    "postgresql": "DROP TRIGGER poison ON jobs_job",
    "sqlite": "DROP TRIGGER poison",
}
