"""What a worker writes while it owns a job, each under its fence."""

from __future__ import annotations

from jobs.fence import Fence, Standing
from jobs.moves.phrases import MINE
from jobs.statements import Fenced, send
from workspaces.sql import Row

# The plain column: SQLite 3.40.1 answered "cancel_requested_at IS NOT NULL" with 1 for NULL here.
_STANDING = "cancel_requested_at, deadline_at <= @now"

_HOLD = f"UPDATE jobs_job SET lease_until = @after(lease) WHERE {MINE}"
_RENEW = Fenced(_HOLD, _STANDING)
_PROGRESS = Fenced(
    f"UPDATE jobs_job SET lease_until = @after(lease), progress = @json(progress) WHERE {MINE}",
    _STANDING,
)
_BEGIN = Fenced(
    _HOLD,
    _STANDING,
    """INSERT INTO jobs_step (job_id, name, effect, boundary, state, attempt, intent_at, opens_at)
    SELECT j.id, %(name)s, %(effect)s, %(boundary)s, 'started', j.attempt, @now,
      CASE WHEN %(remembers)s = 0 THEN @now ELSE @after(remembers) END
    FROM j WHERE true
    ON CONFLICT (job_id, name) DO UPDATE SET state = 'started', attempt = excluded.attempt,
      intent_at = excluded.intent_at, opens_at = excluded.opens_at, done_at = NULL,
      carried_from = NULL
    WHERE jobs_step.state <> 'done'""",
)
_DONE = Fenced(
    _HOLD,
    _STANDING,
    """INSERT INTO jobs_step (job_id, name, effect, boundary, state, attempt, done_at, output,
      output_error)
    SELECT j.id, %(name)s, %(effect)s, %(boundary)s, 'done', j.attempt, @now, @json(output),
      %(output_error)s FROM j WHERE true
    ON CONFLICT (job_id, name) DO UPDATE SET state = 'done', attempt = excluded.attempt,
      done_at = excluded.done_at, output = excluded.output, output_error = excluded.output_error,
      carried_from = NULL
    WHERE jobs_step.state <> 'done'""",
)
_NOT_DONE = Fenced(
    _HOLD,
    _STANDING,
    """UPDATE jobs_step SET state = 'not_done', done_at = @now
    WHERE job_id = (SELECT j.id FROM j) AND name = %(name)s AND state = 'started'""",
)


def renew(fence: Fence) -> Standing | None:
    """Extend the lease. None: the lease is lost. An expired lease nobody reaped is still mine."""
    return _standing(_RENEW.send(fence.params()))


def progress(fence: Fence, text: str) -> Standing | None:
    """Store the progress (JSON text) and extend the lease. None: the lease is lost."""
    return _standing(_PROGRESS.send(fence.params(progress=text)))


def begin_step(
    fence: Fence, *, name: str, effect: str, boundary: str, remembers: float
) -> Standing | None:
    """Commit the intent of a ``keyed`` or ``once`` step. None: the lease is lost.

    Sent again after a lost answer it writes the same intent again: nothing has acted on it yet.
    """
    return _standing(
        _BEGIN.send(fence.params(name=name, effect=effect, boundary=boundary, remembers=remembers))
    )


def finish_step(
    fence: Fence,
    *,
    name: str,
    effect: str,
    boundary: str,
    output: str | None,
    output_error: str = "",
) -> Standing | None:
    """Store a step's output (JSON text); the first written stays. None: the lease is lost."""
    return _standing(
        _DONE.send(
            fence.params(
                name=name,
                effect=effect,
                boundary=boundary,
                output=output,
                output_error=output_error,
            )
        )
    )


def deny_step(fence: Fence, *, name: str) -> Standing | None:
    """Close an intent: its effect surely did not happen. None: the lease is lost."""
    return _standing(_NOT_DONE.send(fence.params(name=name)))


def _standing(row: Row | None) -> Standing | None:
    return None if row is None else Standing(row[0] is not None, bool(row[1]))


_LATE = """UPDATE jobs_step SET late_output = @json(output), late_at = @now
WHERE (job_id = @uuid(id) OR carried_from = @uuid(id)) AND name = %(name)s AND attempt = %(attempt)s
  AND state = 'started' AND late_at IS NULL RETURNING id"""


def keep_late_output(fence: Fence, *, name: str, output: str) -> bool:
    """Keep what a worker brought after its lease was lost: evidence, written once.

    Only onto the intent that this very attempt wrote, and its copies in successors.
    """
    return bool(send(_LATE, fence.params(name=name, output=output)))
