"""Which queued jobs are due for a message, and when the next one is.

PostgreSQL only: inline mode has no messages. The locking selects stand in ``ANY(ARRAY(…))``, which
runs once; under ``IN`` the planner may run them again, and each time lock other rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from jobs.fence import Wake
from jobs.moves.phrases import FIRST_WAKE, LAST_WAKE, QUEUED
from jobs.statements import send
from workspaces.sql import Row, as_uuid

_WAKES = {f"wake{n}": min(LAST_WAKE, FIRST_WAKE * 2.0**n) for n in range(6)}
_NEXT_WAKE = (
    "CASE "
    + " ".join(f"WHEN publishes = {n} THEN @after(wake{n})" for n in range(6))
    + " ELSE @after(last_wake) END"
)
_TAKE_DUE = f"""UPDATE jobs_job SET publishes = publishes + 1, wake_at = {_NEXT_WAKE}
WHERE id = ANY(ARRAY(SELECT id FROM jobs_job WHERE state = 'queued' AND wake_at <= @now{{others}}
  ORDER BY wake_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)) AND {QUEUED}
RETURNING id, kind, queue"""
# The mark that nobody here knows a job's kind has a clock, which goes on whatever comes between.
_SINCE = """CASE WHEN wait_reason = 'unstartable' THEN COALESCE(wait_since, @now) ELSE @now END"""
_MARK_UNSTARTABLE = f"""UPDATE jobs_job SET wait_reason = 'unstartable', wait_since = {_SINCE},
  publishes = 0, wake_at = @after(first_wake)
WHERE id = @uuid(id) AND {QUEUED}"""


def take_due(limit: int, shared_kinds: Sequence[str] = ()) -> list[Wake]:
    """Queued jobs to publish now; each is moved to its next wake.

    A wake that the broker loses is repeated after 30 s, doubling to 30 min: a message is only a
    hint, and a long honest backlog must not be flooded with copies. ``shared_kinds`` are left to
    ``take_shares`` and ``take_gate_shares``.
    """
    sql = _TAKE_DUE.format(others=" AND kind <> ALL(%(shared)s)" if shared_kinds else "")
    params: dict[str, Any] = {"limit": limit, "last_wake": LAST_WAKE, **_WAKES}
    if shared_kinds:
        params["shared"] = list(shared_kinds)
    return _wakes(send(sql, params))


_TAKE_SHARES = f"""UPDATE jobs_job SET publishes = publishes + 1, wake_at = {_NEXT_WAKE}
WHERE id = ANY(ARRAY(
  SELECT due.id FROM workspaces_workspace w CROSS JOIN LATERAL (
    SELECT id FROM jobs_job WHERE kind = %(kind)s AND workspace_id = w.id AND state = 'queued'
      AND wake_at <= @now ORDER BY wake_at
    LIMIT greatest(0, %(share)s - (SELECT count(*) FROM jobs_job WHERE kind = %(kind)s
      AND workspace_id = w.id AND (state = 'running'
        OR (state = 'queued' AND publishes > 0 AND wake_at > @now))))
    FOR UPDATE SKIP LOCKED) due
  LIMIT %(limit)s)) AND {QUEUED} RETURNING id, kind, queue"""


def take_shares(kind: str, share: int, limit: int) -> list[Wake]:
    """Due jobs of ``kind``, at most ``share`` of a workspace under way at once.

    Under way is: running, or published and not yet claimed. *Hole:* two passes at one moment may
    each count before the other publishes, and overshoot by one pass's worth.
    """
    params = {"kind": kind, "share": share, "limit": limit, "last_wake": LAST_WAKE, **_WAKES}
    return _wakes(send(_TAKE_SHARES, params))


# Gate by gate in the one index of what stands behind them: a long backlog of one is not read for
# the others. No other index can answer what is asked so, whatever the statistics say: they may be
# from a time when nothing waited, and then all indexes of queued jobs seem to hold one row.
# Each gate comes with its first wake: where that is not due, what it has parked is not read.
_WAITS = "finished_at IS NULL AND gate <> '' AND state <> 'running'"
_OF_GATE = f"{_WAITS} AND kind = %(kind)s AND gate = g.gate AND (gate, workspace_id, wake_at)"
# A gate of the platform's is one for all workspaces.
_ACCOUNT = "CASE WHEN starts_with(gate, '*') THEN 0 ELSE workspace_id END"
_TAKE_GATE_SHARES = f"""WITH RECURSIVE g AS (
  (SELECT gate, workspace_id, wake_at FROM jobs_job WHERE {_WAITS}
    ORDER BY gate, workspace_id, wake_at LIMIT 1)
  UNION ALL
  SELECT n.gate, n.workspace_id, n.wake_at FROM g CROSS JOIN LATERAL (
    SELECT gate, workspace_id, wake_at FROM jobs_job WHERE {_WAITS}
      AND (gate, workspace_id) > (g.gate, g.workspace_id)
    ORDER BY gate, workspace_id, wake_at LIMIT 1) n),
busy AS MATERIALIZED (SELECT gate, workspace_id, {_ACCOUNT} AS account, count(*) AS jobs
  FROM jobs_job WHERE state = 'running' AND gate <> '' AND kind = %(kind)s
  GROUP BY gate, workspace_id),
used AS MATERIALIZED (SELECT gate, account, sum(jobs) AS jobs FROM busy GROUP BY gate, account),
room AS MATERIALIZED (
  SELECT g.gate, g.workspace_id, g.account, woken + COALESCE(busy.jobs, 0) AS mine,
    %(share)s - sum(woken) OVER (PARTITION BY g.gate, g.account) - COALESCE(used.jobs, 0) AS free
  FROM (SELECT *, {_ACCOUNT} AS account FROM g) g
  LEFT JOIN busy USING (gate, workspace_id) LEFT JOIN used ON used.gate = g.gate
    AND used.account = g.account
  CROSS JOIN LATERAL (SELECT count(*) AS woken FROM jobs_job
    WHERE {_OF_GATE} > (g.gate, g.workspace_id, @now)
      AND (gate, workspace_id, wake_at) <= (g.gate, g.workspace_id, 'infinity')
      AND publishes > 0 AND (g.wake_at <= @now OR g.account = 0)) w)
UPDATE jobs_job SET publishes = publishes + 1, wake_at = {_NEXT_WAKE}
WHERE id = ANY(ARRAY(
  SELECT id FROM (
    SELECT due.*, g.free,
      row_number() OVER (PARTITION BY g.gate, g.account ORDER BY mine + turn, wake_at) AS place
    FROM room g CROSS JOIN LATERAL (
      SELECT id, wake_at, row_number() OVER (ORDER BY wake_at, id) AS turn FROM (
        SELECT id, wake_at FROM jobs_job WHERE {_OF_GATE} > (g.gate, g.workspace_id, '-infinity')
          AND (gate, workspace_id, wake_at) <= (g.gate, g.workspace_id, @now)
        ORDER BY gate, workspace_id, wake_at, id
        LIMIT greatest(0, g.free)::bigint FOR UPDATE SKIP LOCKED) oldest) due) fair
  WHERE place <= free ORDER BY turn, wake_at LIMIT %(limit)s)) AND {QUEUED}
RETURNING id, kind, queue"""


def take_gate_shares(kind: str, share: int, limit: int) -> list[Wake]:
    """Due jobs of ``kind``, at most ``share`` behind each gate under way at once.

    The gates take turns, each with its oldest first, so a long backlog of one keeps none from
    another. Behind a gate of the platform's, which is one for all, so do the workspaces: first
    comes who has the fewest under way, then who waits longest. What is under way is that of
    ``take_shares``; upkeep lets one caller in at a time.
    """
    params = {"kind": kind, "share": share, "limit": limit, "last_wake": LAST_WAKE, **_WAKES}
    return _wakes(send(_TAKE_GATE_SHARES, params))


def _wakes(rows: Sequence[Row]) -> list[Wake]:
    return [Wake(as_uuid(row[0]), row[1], row[2]) for row in rows]


_CHANGE_LANE = """UPDATE jobs_job SET queue = %(queue)s
WHERE workspace_id = %(workspace)s AND gate = %(gate)s AND gate <> '' AND queue <> %(queue)s
  AND finished_at IS NULL"""


def change_lane(workspace_id: int, gate: str, queue: str) -> None:
    """Let the jobs behind a gate of the workspace, and those that run, go on in another queue.

    *Hole:* what is published already is worked off where it was sent.
    """
    send(_CHANGE_LANE, {"workspace": workspace_id, "gate": gate, "queue": queue})


def change_queue(job_id: uuid.UUID, queue: str) -> None:
    """Let one job that has not been published yet go on in another queue."""
    send(
        "UPDATE jobs_job SET queue = %(queue)s WHERE id = @uuid(id)", {"id": job_id, "queue": queue}
    )


def mark_unstartable(job_id: uuid.UUID) -> None:
    """Note since when nobody here knows the kind; an hour later the sweeper buries the job.

    Nobody was woken for it, so no wake is counted: newer code finds it within half a minute.
    """
    send(_MARK_UNSTARTABLE, {"id": job_id, "first_wake": FIRST_WAKE})


def mark_startable(job_id: uuid.UUID) -> None:
    """Take that mark away, and let the next pass wake the job."""
    send(
        f"""UPDATE jobs_job SET wait_reason = '', wait_since = NULL, wake_at = @now
        WHERE id = @uuid(id) AND {QUEUED} AND wait_reason = 'unstartable'""",
        {"id": job_id},
    )


# Who opens a gate deletes it, and then wakes what it sees parked: so the gate is held meanwhile, or
# left out where somebody is about to change it. Nor is a job waited for: its holder may open gates.
_PARK = f"""WITH g AS MATERIALIZED (
  SELECT * FROM jobs_gate WHERE closed_until > @now FOR KEY SHARE SKIP LOCKED),
p AS MATERIALIZED (SELECT jobs_job.id, g.closed_until FROM jobs_job JOIN g ON g.name = gate
    AND (g.workspace_id IS NULL OR g.workspace_id = jobs_job.workspace_id)
    AND (g.probe_id IS NULL OR g.probe_id <> jobs_job.id OR g.probe_attempt <> attempt + 1)
  WHERE state = 'queued' AND wake_at <= @now AND gate <> '' FOR UPDATE OF jobs_job SKIP LOCKED)
UPDATE jobs_job SET wait_since = {_SINCE}, publishes = 0, wait_reason =
  CASE WHEN wait_reason = 'unstartable' THEN wait_reason ELSE 'throttled' END,
  wake_at = p.closed_until + random() * %(spread)s * interval '1 second'
FROM p WHERE jobs_job.id = p.id AND {QUEUED}"""


def park_behind_gates(spread: float) -> None:
    """Move what is due behind a closed gate past its opening, over ``spread`` seconds.

    The job that a gate lets through to see whether it may open stays due. What is marked as
    unstartable stays so: a gate that keeps closing must not hide it. A gate, or a job, that
    somebody is at work on is left to the next pass.
    """
    send(_PARK, {"spread": spread})
