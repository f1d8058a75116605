"""What closing a workspace does to its jobs: queued ones are cancelled, running ones asked to stop.

In the transaction that closes it; new jobs are refused by the insert itself from then on.
*Hole:* a running job stops at its next step boundary, and an open intent ends it uncertain.
"""

from __future__ import annotations

from jobs import ending, moves
from jobs.models import Job
from jobs.states import State
from workspaces.actors import Actor
from workspaces.models import Workspace


def stop_jobs(workspace: Workspace, _actor: Actor, _reason: str) -> None:
    """Cancel what waits and ask what runs to stop.

    All are locked first, so that none is missed that goes from one to the other meanwhile.
    """
    at_work = Job.objects.filter(workspace=workspace, state__in=(State.QUEUED, State.RUNNING))
    locked = at_work.select_for_update().order_by("pk").values_list("pk", "state")
    for job_id, state in list(locked):
        if state == State.RUNNING:
            moves.ask_cancel(job_id)
        elif (ended := moves.cancel_queued(job_id)) is not None:
            ending.follow(job_id, ended)
