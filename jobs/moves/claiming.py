"""How a worker takes a job."""

from __future__ import annotations

import time
import uuid

from django.db import connection

from jobs.fence import Claim, Fence
from jobs.moves.phrases import QUEUED
from jobs.statements import Fenced
from workspaces.sql import as_uuid

_CLAIM = Fenced(
    update=f"""UPDATE jobs_job SET state = 'running', attempt = attempt + 1, worker = %(worker)s,
      started_at = @now, lease_until = @after(lease), kill_at = @after(time_limit)
    WHERE id = @uuid(id) AND kind = %(kind)s AND {QUEUED} AND run_at <= @now
      AND (deadline_at IS NULL OR deadline_at > @now) AND cancel_requested_at IS NULL
      AND (gate = '' OR NOT EXISTS (SELECT 1 FROM jobs_gate g WHERE g.name = jobs_job.gate
        AND (g.workspace_id IS NULL OR g.workspace_id = jobs_job.workspace_id)
        AND g.closed_until > @now AND (g.probe_id IS NULL OR g.probe_id <> jobs_job.id
          OR g.probe_attempt <> jobs_job.attempt + 1)))""",
    answer="""attempt, kind, key, params, version, workspace_id, root_id, epoch, failures, losses,
      @until(deadline_at), retry_of_id, request_id, traceparent, gate""",
)
# The claim may commit asynchronously: a crash that forgets it leaves the job queued, and the
# fence tells the forgotten attempt from the next one. Intents and outcomes never do.
_CLAIM_POSTGRESQL = Fenced(
    update=_CLAIM.update,
    answer=_CLAIM.answer + ", set_config('synchronous_commit', 'off', true)",
)


def claim(
    job_id: uuid.UUID, kind: str, *, worker: str, lease: float, time_limit: float
) -> Claim | None:
    """Take a queued, due job of ``kind``, or None.

    *Hole:* a claim whose answer is lost costs one loss.
    """
    kill_at = time.monotonic() + time_limit
    statement = _CLAIM_POSTGRESQL if connection.vendor == "postgresql" else _CLAIM
    params = {
        "id": job_id,
        "kind": kind,
        "worker": worker,
        "lease": lease,
        "time_limit": time_limit,
    }
    row = statement.send(params)
    if row is None:
        return None
    return Claim(
        fence=Fence(job_id, row[0], worker, lease),
        kill_at=kill_at,
        kind=row[1],
        key=row[2],
        params=row[3],
        version=row[4],
        workspace_id=row[5],
        root_id=as_uuid(row[6]),
        epoch=row[7],
        failures=row[8],
        losses=row[9],
        seconds_left=row[10],
        is_retry=row[11] is not None,
        request_id=row[12],
        traceparent=row[13],
        gate=row[14],
    )
