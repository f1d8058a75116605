"""How a job comes in: a new intent, or the successor of a retried one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from functools import cache
from typing import Any

from django.db import connection

from jobs.models import Job
from jobs.moves.phrases import FIRST_WAKE
from jobs.statements import send
from workspaces.sql import as_uuid, columns, made

_INSERT = """
INSERT INTO jobs_job (id, workspace_id, kind, key, params, params_digest, version, queue, gate,
  state, run_at, wake_at, wait_reason, wait_since, deadline_at, root_id, actor, request_id,
  traceparent)
SELECT @uuid(id), w.id, %(kind)s, %(key)s, @json(params), %(digest)s, %(version)s, %(queue)s,
  %(gate)s, 'queued', m.run_at, CASE WHEN %(waits)s OR %(shared)s THEN m.run_at
  ELSE @after(first_wake) END,
  CASE WHEN %(waits)s THEN 'scheduled' ELSE '' END, CASE WHEN %(waits)s THEN @now END,
  {deadline}, @uuid(id), %(actor)s, %(request_id)s, %(traceparent)s
FROM workspaces_workspace w
CROSS JOIN (SELECT COALESCE(@time(eta), @now) AS run_at) m
WHERE w.id = %(workspace)s AND w.closed_at IS NULL {lock}
ON CONFLICT (workspace_id, kind, key) WHERE retry_of_id IS NULL DO NOTHING
RETURNING {columns}
"""
_DECIDED = ("state", "run_at", "wake_at", "wait_reason", "wait_since", "deadline_at", "created_at")
_AS_SENT = ("id", "kind", "key", "version", "queue", "gate", "actor", "request_id", "traceparent")


def insert(params: dict[str, Any]) -> Job | None:
    """Insert one job in the caller's transaction; None for a taken key or a closed workspace.

    The workspace is locked ``FOR SHARE`` on PostgreSQL, so that closing it and enqueueing
    into it cannot pass each other. Only what the database decides is read back.
    """
    sql = _insert(ends=params["deadline"] is not None, vendor=connection.vendor)
    sent = {
        name: value for name, value in params.items() if name != "deadline" or value is not None
    }
    for job in made(Job, send(sql, {**sent, "first_wake": FIRST_WAKE}), _DECIDED):
        vars(job).update(_known(params))
        return job
    return None


def _known(params: dict[str, Any]) -> dict[str, Any]:
    """What the row surely holds: what was sent, and the table's own defaults."""
    return {
        **_defaults(),
        **{name: params[name] for name in _AS_SENT},
        "workspace_id": params["workspace"],
        "params": json.loads(params["params"]),
        "params_digest": params["digest"],
        "root_id": params["id"],
    }


@cache
def _defaults() -> dict[str, Any]:
    fields = [field for field in Job._meta.concrete_fields if field.attname not in _DECIDED]
    return {f.attname: f.db_default if f.has_db_default() else None for f in fields}


@cache
def _insert(*, ends: bool, vendor: str) -> str:
    postgresql = vendor == "postgresql"
    later = (
        "greatest(@now, m.run_at) + %(deadline)s * interval '1 second'"
        if postgresql
        else "django_format_dtdelta('+', max(@now, m.run_at),"
        " CAST(%(deadline)s * 1000000 AS INTEGER))"
    )
    return _INSERT.format(
        deadline=later if ends else "NULL",
        lock="FOR SHARE OF w" if postgresql else "",
        columns=columns(Job, only=_DECIDED),
    )


_INSERT_MANY = """
INSERT INTO jobs_job (id, workspace_id, kind, key, params, params_digest, version, queue, gate,
  state, run_at, wake_at, deadline_at, root_id, actor, request_id, traceparent)
SELECT r.id, w.id, r.kind, r.key, r.params::jsonb, r.digest, r.version, r.queue, r.gate, 'queued',
  @now, CASE WHEN r.shared THEN @now ELSE @after(first_wake) END,
  @now + r.deadline * interval '1 second', r.id, %(actor)s,
  %(request_id)s, %(traceparent)s
FROM unnest(%(id)s::uuid[], %(kind)s::text[], %(key)s::text[], %(params)s::text[],
  %(digest)s::text[], %(version)s::int[], %(queue)s::text[], %(gate)s::text[],
  %(deadline)s::float8[], %(shared)s::bool[])
  AS r(id, kind, key, params, digest, version, queue, gate, deadline, shared)
CROSS JOIN (SELECT id FROM workspaces_workspace WHERE id = %(workspace)s AND closed_at IS NULL
  FOR SHARE) w
ON CONFLICT (workspace_id, kind, key) WHERE retry_of_id IS NULL DO NOTHING
RETURNING id
"""
_COLUMNS = (
    "id",
    "kind",
    "key",
    "params",
    "digest",
    "version",
    "queue",
    "gate",
    "deadline",
    "shared",
)
_SHARED = ("workspace", "actor", "request_id", "traceparent")


def insert_many(rows: Sequence[dict[str, Any]]) -> set[uuid.UUID]:
    """Insert jobs of one workspace that are due now; the ids of those whose key was free.

    In the order given, which must be that of their keys: two calls that insert some of the same
    keys in different orders would wait for each other.
    """
    if connection.vendor != "postgresql":
        return {row["id"] for row in rows if insert(row)}
    params: dict[str, Any] = {name: [row[name] for row in rows] for name in _COLUMNS}
    params.update({name: rows[0][name] for name in _SHARED}, first_wake=FIRST_WAKE)
    return {as_uuid(row[0]) for row in send(_INSERT_MANY, params)}


_SUCCESSOR = """
INSERT INTO jobs_job (id, workspace_id, kind, key, params, params_digest, version, queue, gate,
  state, run_at, wake_at, deadline_at, retry_of_id, root_id, epoch, mode, actor, request_id,
  traceparent)
SELECT @uuid(new), workspace_id, kind, key, params, params_digest, %(version)s, queue, gate,
  'queued', @now, CASE WHEN %(shared)s THEN @now ELSE @after(first_wake) END, {deadline}, j.id,
  root_id, epoch + %(epoch)s, %(mode)s,
  %(actor)s, %(request_id)s, %(traceparent)s
FROM jobs_job j JOIN workspaces_workspace w ON w.id = j.workspace_id
WHERE j.id = @uuid(id) AND j.state IN ('dead', 'cancelled') AND w.closed_at IS NULL {lock}
RETURNING id
"""
_CARRY = """
INSERT INTO jobs_step (job_id, name, effect, boundary, state, attempt, intent_at, opens_at,
  done_at, output, output_error, carried_from, late_output, late_at)
SELECT @uuid(new), name, effect, boundary, {state}, attempt, intent_at, opens_at, {done_at},
  {output}, {output_error}, COALESCE(carried_from, job_id), late_output, late_at
FROM jobs_step WHERE job_id = @uuid(id) AND name = %(name)s
"""


def insert_successor(params: dict[str, Any], *, deadline: float | None) -> bool:
    """Insert the one successor of a dead or cancelled job, in the caller's transaction.

    ``retry_of`` is unique. False for a closed workspace, which is locked as ``insert`` locks it.
    """
    lock = "FOR SHARE OF w" if connection.vendor == "postgresql" else ""
    until = "NULL" if deadline is None else "@after(deadline)"
    sent = {**params, "first_wake": FIRST_WAKE}
    if deadline is not None:
        sent["deadline"] = deadline
    if not send(_SUCCESSOR.format(deadline=until, lock=lock), sent):
        return False
    send("UPDATE jobs_job SET retried_at = @now WHERE id = @uuid(id)", {"id": params["id"]})
    return True


def carry_step(old: uuid.UUID, new: uuid.UUID, name: str, *, column: str | None) -> None:
    """Copy a step into a successor, naming the job it came from.

    ``column`` is where its output is found (``output``, ``late_output``, ``observed_output``) for
    a step that counts as done; None copies an open intent as it is.
    """
    words = {
        "state": "'started'" if column is None else "'done'",
        "done_at": "NULL" if column is None else "COALESCE(done_at, late_at, observed_at)",
        "output": "NULL" if column is None else column,
        "output_error": "output_error" if column == "output" else "''",
    }
    send(_CARRY.format(**words), {"id": old, "new": new, "name": name})
