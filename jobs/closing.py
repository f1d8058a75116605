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
    """Cancel what waits and ask what runs to stop."""
    jobs = Job.objects.filter(workspace=workspace)
    for job_id in jobs.filter(state=State.QUEUED).order_by("pk").values_list("pk", flat=True):
        ended = moves.cancel_queued(job_id)
        if ended is not None:
            ending.follow(job_id, ended)
    for job_id in jobs.filter(state=State.RUNNING).order_by("pk").values_list("pk", flat=True):
        moves.ask_cancel(job_id)
