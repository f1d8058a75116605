"""Code of an author's that is called within a transaction of ours: hooks, and receivers of events.

One that raises is undone alone. One that ends the transaction itself (it closes the connection,
sends a bare ``COMMIT`` or ``ROLLBACK``, never leaves an ``atomic`` or a pipeline) takes with it
whatever we wrote or were to write; so all of it is done once more, without that guest.
*Hole:* what a guest committed so stays, and guests that were called before it are called again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connection, transaction

from jobs import shutdown
from jobs.transactions import give_up, has_pipeline
from workspaces.outages import is_outage

logger = logging.getLogger(__name__)
T = TypeVar("T")
_local = threading.local()


class Broken(Exception):
    """A guest ended the transaction that it was called in. ``fault`` may hold secrets."""

    def __init__(self, who: str, error: BaseException | None) -> None:
        super().__init__(f"{who} ended the transaction that it was called in")
        self.who = who
        self.outage = isinstance(error, Exception) and is_outage(error)
        self.fault = f"{self}" if error is None else f"{self}: {type(error).__name__}: {error}"


@contextmanager
def guest(who: str) -> Iterator[None]:
    """A savepoint for the code of ``who``, within a transaction of ours that must outlive it.

    What the code raises is raised, with the savepoint undone. Raises Broken where the transaction
    is gone, so that nothing after it can be written. A fork that comes back ends here.
    """
    pid, stood = os.getpid(), _standing()
    fault: BaseException | None = None
    try:
        with transaction.atomic():
            try:
                yield
            finally:
                _settled(pid)
    except BaseException as error:
        if shutdown.ends_process(error) or _standing() == stood:
            raise
        fault = error
    if _standing() != stood:
        raise Broken(who, fault) from fault


def _settled(pid: int) -> None:
    if os.getpid() != pid:
        logger.error("job.fork_came_back")
        os._exit(1)
    if has_pipeline():
        connection.close()


def _standing() -> tuple[Any, ...]:
    """What tells one place in a transaction from any other, without asking the database."""
    ended = connection.closed_in_transaction or connection.needs_rollback
    return id(connection.connection), connection.in_atomic_block, ended, *connection.savepoint_ids


def broken_by(who: str) -> str | None:
    """What ``who`` did to the transaction that is now repeated without it, if it did."""
    faults: dict[str, str] | None = getattr(_local, "faults", None)
    return faults.get(who) if faults else None


def repeated(work: Callable[[], T], after_break: Callable[[], None]) -> T:
    """Do ``work``, one transaction; again without each guest that breaks it.

    A guest under which the database went away is called once more: it need not be its doing.
    ``after_break`` looks after what such a guest has committed. Within the caller's transaction,
    which is gone with ours, Broken is raised.
    """
    if connection.in_atomic_block:
        return work()
    faults: dict[str, str] = {}
    forgiven: set[str] = set()
    around = getattr(_local, "faults", None)  # what runs inline after a commit is called within
    _local.faults = faults
    try:
        while True:
            try:
                if faults:
                    after_break()
                return work()
            except Broken as broke:
                give_up()
                if broke.who in faults:
                    raise
                if broke.outage and broke.who not in forgiven:
                    forgiven.add(broke.who)
                    continue
                logger.error("job.transaction_broken", extra={"by": broke.who})  # noqa: TRY400
                faults[broke.who] = broke.fault
    finally:
        _local.faults = around


def committed(work: Callable[[], T]) -> T:
    """Do ``work`` in one transaction; where what a guest hung on its commit fails, it is done."""
    answers: list[T] = []
    over: list[bool] = []
    try:
        with transaction.atomic():
            transaction.on_commit(lambda: over.append(True))
            answers.append(work())
    except BaseException as error:
        if not over or shutdown.ends_process(error):
            raise
        logger.exception("job.on_commit_failed")
    return answers[0]
