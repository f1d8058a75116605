"""How the chain of a job stands, read under the locks that keep it standing so.

Events may be delivered late, twice, and out of order. So nothing here trusts an event about the
state of a chain: it is only the occasion to look at the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alerts.models import Ending
from jobs.models import Job
from jobs.states import State

if TYPE_CHECKING:
    from uuid import UUID


def lock_onwards(job_id: UUID) -> list[Job]:
    """Lock a job and its successors, oldest first; empty if its retention has ended.

    The last one is the newest of its chain and stays so, in the state it is in, until the
    transaction ends: a retry locks it first, and so does whatever ends it.
    """
    chain = list[Job]()
    job = Job.objects.select_for_update().filter(pk=job_id).first()
    while job is not None:
        chain.append(job)
        job = Job.objects.select_for_update().filter(retry_of=job).first()
    return chain


def ending_of(newest: Job) -> Ending | None:
    """Say how a chain ended, or None while somebody still has to look at it. Pure."""
    if newest.state == State.SUCCEEDED:
        return Ending.SUCCEEDED
    if newest.state == State.CANCELLED:
        return Ending.CANCELLED
    return Ending.RESOLVED if newest.resolved_at else None
