"""A plain success that takes an author's own rows along, in the one statement that ends the job.

For kinds of the platform's own that run often. PostgreSQL only: elsewhere, and whenever anything
else follows the job's end, it ends in the usual way.
"""

from __future__ import annotations

import logging
from functools import partial

from django.db import DatabaseError, connection

from jobs import events, moves
from jobs.fence import Along, AttemptRecord, Ended
from jobs.run import Run
from jobs.statements import UNREACHABLE, persist

logger = logging.getLogger(__name__)


def ended(run: Run, along: Along, result: str, record: AttemptRecord) -> Ended | None:
    """The job's end with the author's rows, or None where it has to end in the usual way.

    That is: a later attempt or a retry (locks, events), a kind with steps, somebody who wants to
    hear of successes, a condition that does not hold, a statement that fails, a fence that is
    lost. Raises what the database raises when it stays out of reach.
    """
    if not _is_plain(run):
        return None
    move = partial(moves.succeed_along, run.claim.fence, result=result, record=record, along=along)
    try:
        return persist(move, run.claim.patience)
    except UNREACHABLE:
        raise
    except DatabaseError:
        logger.exception("job.ended_without_its_rows")
        return None


def _is_plain(run: Run) -> bool:
    claim = run.claim
    return (
        connection.vendor == "postgresql"
        and not claim.has_history
        and not run.spec.steps
        and not run.journal.took_locks
        and not events.wanted("job.succeeded", claim.workspace_id)
    )
