"""Which queued jobs are due for a message, and when the next one is."""

from __future__ import annotations

import uuid

from django.db import connection

from jobs.moves.phrases import FIRST_WAKE, LAST_WAKE
from jobs.statements import as_uuid, send

_WAKES = {f"wake{n}": min(LAST_WAKE, FIRST_WAKE * 2.0**n) for n in range(6)}
_NEXT_WAKE = (
    "CASE "
    + " ".join(f"WHEN publishes = {n} THEN @after(wake{n})" for n in range(6))
    + " ELSE @after(last_wake) END"
)
_TAKE_DUE = f"""UPDATE jobs_job SET publishes = publishes + 1, wake_at = {_NEXT_WAKE}
WHERE id IN (SELECT id FROM jobs_job WHERE state = 'queued' AND wake_at <= @now
  ORDER BY wake_at LIMIT %(limit)s {{lock}}) AND state = 'queued' RETURNING id, kind"""
_MARK_UNSTARTABLE = """UPDATE jobs_job SET wait_reason = 'unstartable', wait_since = CASE
  WHEN wait_reason = 'unstartable' THEN COALESCE(wait_since, @now) ELSE @now END
WHERE id = @uuid(id) AND state = 'queued'"""


def take_due(limit: int) -> list[tuple[uuid.UUID, str]]:
    """Ids and kinds of queued jobs to publish now; each is moved to its next wake.

    A wake that the broker loses is repeated after 30 s, doubling to 30 min: a message is only a
    hint, and a long honest backlog must not be flooded with copies.
    """
    lock = "FOR UPDATE SKIP LOCKED" if connection.vendor == "postgresql" else ""
    rows = send(_TAKE_DUE.format(lock=lock), {"limit": limit, "last_wake": LAST_WAKE, **_WAKES})
    return [(as_uuid(row[0]), row[1]) for row in rows]


def mark_unstartable(job_id: uuid.UUID) -> None:
    """Note since when nobody here knows the kind; an hour later the sweeper buries the job."""
    send(_MARK_UNSTARTABLE, {"id": job_id})


_PARK = """UPDATE jobs_job SET wait_reason = 'throttled', wait_since = @now,
  wake_at = g.closed_until + random() * %(spread)s * interval '1 second'
FROM jobs_gate g WHERE state = 'queued' AND wake_at <= @now AND gate <> '' AND g.name = gate
  AND (g.workspace_id IS NULL OR g.workspace_id = jobs_job.workspace_id)
  AND g.closed_until > @now"""


def park_behind_gates(spread: float) -> None:
    """Move what is due behind a closed gate past its opening, scattered over ``spread`` seconds.

    PostgreSQL only: inline mode has no messages to hold back.
    """
    send(_PARK, {"spread": spread})
