"""Two database sessions, one of which surely waits for the other. PostgreSQL only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from django.db import connection, transaction

from tests.waiting import wait_until


@contextmanager
def meanwhile(act: Callable[[], object], *, undone: bool = False) -> Iterator[None]:
    """Run the block in a transaction that ends only once `act`, elsewhere, waits for it.

    So a race is made, not hoped for. With `undone` the block is rolled back. What `act` raises
    fails the test.
    """
    faults = list[BaseException]()
    thread = Thread(target=_run, args=(act, faults))
    with transaction.atomic():
        yield
        thread.start()
        wait_until(_somebody_waits_for_this_session)
        transaction.set_rollback(undone)
    thread.join(20)
    assert not thread.is_alive()
    assert faults == []


def _run(act: Callable[[], object], faults: list[BaseException]) -> None:
    try:
        act()
    except BaseException as error:  # noqa: BLE001  raised again in the test's own thread
        faults.append(error)
    finally:
        connection.close()


def _somebody_waits_for_this_session() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks"
            " WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )
        return bool(cursor.fetchone()[0])
