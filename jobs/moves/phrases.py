"""The phrases that the statements of this package share."""

from __future__ import annotations

FIRST_WAKE = 30.0
LAST_WAKE = 1800.0

MINE = "id = @uuid(id) AND attempt = %(attempt)s AND worker = %(worker)s AND state = 'running'"
OPEN = (
    "EXISTS (SELECT 1 FROM jobs_step s WHERE s.job_id = jobs_job.id AND s.state = 'started'"
    " AND s.observed = '' AND s.late_at IS NULL AND s.opens_at <= @now)"
)

# For a row that is found by its id. So written, no planner takes an index of queued jobs for it:
# where statistics are from a time without any, that seems to hold one row, and is read whole.
QUEUED = "state || '' = 'queued'"
