"""Which queued jobs are due for a message, and when the next one is.

PostgreSQL only: inline mode has no messages. The locking selects stand in ``ANY(ARRAY(…))``, which
runs once; under ``IN`` the planner may run them again, and each time lock other rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from jobs.moves.phrases import FIRST_WAKE, LAST_WAKE
from jobs.statements import as_uuid, send

_WAKES = {f"wake{n}": min(LAST_WAKE, FIRST_WAKE * 2.0**n) for n in range(6)}
_NEXT_WAKE = (
    "CASE "
    + " ".join(f"WHEN publishes = {n} THEN @after(wake{n})" for n in range(6))
    + " ELSE @after(last_wake) END"
)
_TAKE_DUE = f"""UPDATE jobs_job SET publishes = publishes + 1, wake_at = {_NEXT_WAKE}
WHERE id = ANY(ARRAY(SELECT id FROM jobs_job WHERE state = 'queued' AND wake_at <= @now{{others}}
  ORDER BY wake_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)) AND state = 'queued'
RETURNING id, kind"""
_MARK_UNSTARTABLE = """UPDATE jobs_job SET wait_reason = 'unstartable', wait_since = CASE
  WHEN wait_reason = 'unstartable' THEN COALESCE(wait_since, @now) ELSE @now END,
  publishes = 0, wake_at = @after(first_wake)
WHERE id = @uuid(id) AND state = 'queued'"""


def take_due(limit: int, shared_kinds: Sequence[str] = ()) -> list[tuple[uuid.UUID, str]]:
    """Ids and kinds of queued jobs to publish now; each is moved to its next wake.

    A wake that the broker loses is repeated after 30 s, doubling to 30 min: a message is only a
    hint, and a long honest backlog must not be flooded with copies. ``shared_kinds`` are left to
    ``take_shares``.
    """
    sql = _TAKE_DUE.format(others=" AND kind <> ALL(%(shared)s)" if shared_kinds else "")
    params: dict[str, Any] = {"limit": limit, "last_wake": LAST_WAKE, **_WAKES}
    if shared_kinds:
        params["shared"] = list(shared_kinds)
    return [(as_uuid(row[0]), row[1]) for row in send(sql, params)]


_TAKE_SHARES = f"""UPDATE jobs_job SET publishes = publishes + 1, wake_at = {_NEXT_WAKE}
WHERE id = ANY(ARRAY(
  SELECT due.id FROM workspaces_workspace w CROSS JOIN LATERAL (
    SELECT id FROM jobs_job WHERE kind = %(kind)s AND workspace_id = w.id AND state = 'queued'
      AND wake_at <= @now ORDER BY wake_at
    LIMIT greatest(0, %(share)s - (SELECT count(*) FROM jobs_job WHERE kind = %(kind)s
      AND workspace_id = w.id AND (state = 'running'
        OR (state = 'queued' AND publishes > 0 AND wake_at > @now))))
    FOR UPDATE SKIP LOCKED) due
  LIMIT %(limit)s)) AND state = 'queued' RETURNING id, kind"""


def take_shares(kind: str, share: int, limit: int) -> list[tuple[uuid.UUID, str]]:
    """Ids of due jobs of ``kind``, at most ``share`` of a workspace under way at once.

    Under way is: running, or published and not yet claimed. *Hole:* two passes at one moment may
    each count before the other publishes, and overshoot by one pass's worth.
    """
    params = {"kind": kind, "share": share, "limit": limit, "last_wake": LAST_WAKE, **_WAKES}
    return [(as_uuid(row[0]), row[1]) for row in send(_TAKE_SHARES, params)]


def mark_unstartable(job_id: uuid.UUID) -> None:
    """Note since when nobody here knows the kind; an hour later the sweeper buries the job.

    Nobody was woken for it, so no wake is counted: newer code finds it within half a minute.
    """
    send(_MARK_UNSTARTABLE, {"id": job_id, "first_wake": FIRST_WAKE})


def mark_startable(job_id: uuid.UUID) -> None:
    """Take that mark away, and let the next pass wake the job."""
    send(
        """UPDATE jobs_job SET wait_reason = '', wait_since = NULL, wake_at = @now
        WHERE id = @uuid(id) AND state = 'queued' AND wait_reason = 'unstartable'""",
        {"id": job_id},
    )


_PARK = """UPDATE jobs_job SET wait_reason = 'throttled', wait_since = @now,
  wake_at = g.closed_until + random() * %(spread)s * interval '1 second'
FROM jobs_gate g WHERE state = 'queued' AND wake_at <= @now AND gate <> '' AND g.name = gate
  AND (g.workspace_id IS NULL OR g.workspace_id = jobs_job.workspace_id)
  AND g.closed_until > @now"""


def park_behind_gates(spread: float) -> None:
    """Move what is due behind a closed gate past its opening, over ``spread`` seconds."""
    send(_PARK, {"spread": spread})
