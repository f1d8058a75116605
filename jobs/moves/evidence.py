"""What an operator adds to a final job: written once, onto empty fields."""

from __future__ import annotations

import uuid

from jobs.statements import send

_RESOLVE = """UPDATE jobs_job SET resolved_at = @now, resolution = %(resolution)s
WHERE id = @uuid(id) AND state = 'dead' AND resolved_at IS NULL RETURNING id"""
_OBSERVE = """UPDATE jobs_step SET observed = %(observed)s, observed_output = @json(output),
  observed_by = %(actor)s, observed_at = @now
WHERE job_id = @uuid(id) AND name = %(name)s AND observed = ''
  AND ((state = 'started' AND late_at IS NULL AND opens_at <= @now)
    OR (state = 'done' AND output_error <> '' AND %(observed)s = 'happened')) RETURNING id"""


def resolve(job_id: uuid.UUID, resolution: str) -> bool:
    """Close a dead letter without running it; written once."""
    return bool(send(_RESOLVE, {"id": job_id, "resolution": resolution}))


def observe(job_id: uuid.UUID, *, name: str, observed: str, output: str | None, actor: str) -> bool:
    """Record what was observed about an open step; written once, onto empty fields.

    Of a step that is done, but whose output could not be stored, only that can be recorded.
    """
    params = {"id": job_id, "name": name, "observed": observed, "output": output, "actor": actor}
    return bool(send(_OBSERVE, params))
