"""Whether an author's code has left a transaction open, in which our records would vanish.

An intent that joins somebody's transaction is no intent: it goes with the rollback, and so does a
finish that joins what the code before it left open. So steps are refused inside a transaction,
and whatever is left open is rolled back before the next record is written.
What is called within a transaction of ours is a guest of it: see ``jobs.guests``.
*Hole:* a bare ``COMMIT`` in a ``local`` step commits what it wrote so far, without the checkpoint.
"""

from __future__ import annotations

import logging

from django.db import DEFAULT_DB_ALIAS, connection, connections
from psycopg.pq import PipelineStatus, TransactionStatus

logger = logging.getLogger(__name__)


class TransactionOpen(RuntimeError):
    """Code that called a step inside a transaction, or left one open. No retry mends it."""


def is_open() -> bool:
    """Whether this thread's connection is in a transaction, however it was begun. No query."""
    if connection.connection is None:
        return False
    if connection.in_atomic_block or not connection.autocommit:
        return True
    if connection.vendor == "postgresql":
        status: TransactionStatus = connection.connection.info.transaction_status
        within = status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)
        return within or has_pipeline() or not connection.connection.autocommit
    return bool(connection.connection.in_transaction)


def has_pipeline() -> bool:
    """Whether psycopg's pipeline is on, in which no statement of ours would get its answer."""
    if connection.vendor != "postgresql" or connection.connection is None:
        return False
    return bool(connection.connection.pgconn.pipeline_status != PipelineStatus.OFF)


def refuse(what: str) -> None:
    """Raise TransactionOpen inside a transaction: ``what`` must commit by itself."""
    if is_open():
        raise TransactionOpen(
            f"{what} was called inside a transaction, or a pipeline of psycopg. Nothing of it was "
            "done: its record would be undone with your transaction. Call it outside, and put what "
            "must commit together with its record into a step.local."
        )


def roll_back_leftover() -> bool:
    """Give up what was left open, with its connection; whether there was any."""
    if not is_open():
        return False
    logger.warning("job.transaction_left_open")
    give_up()
    return True


def give_up() -> None:
    """Close the connection, wherever it stands; the next statement opens another."""
    connection.close()
    del connections[DEFAULT_DB_ALIAS]  # Django's own record of where it stands goes with it


def left_by(what: str) -> TransactionOpen:
    """The error for code that returned with its transaction still open."""
    return TransactionOpen(
        f"{what} returned with a transaction open: what it wrote in that was rolled back. "
        "End every transaction where it was begun, best with transaction.atomic()."
    )
