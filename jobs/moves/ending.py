"""How an attempt ends, and how a queued job ends without one."""

from __future__ import annotations

import re
import uuid
from functools import lru_cache

from jobs.fence import Along, AttemptRecord, Ended, Fence
from jobs.moves.phrases import MINE, OPEN, QUEUED
from jobs.statements import Fenced, send
from jobs.states import Cause, State, WaitReason
from workspaces.sql import Row

_ATTEMPT = """INSERT INTO jobs_attempt (job_id, number, outcome, classification, reason, step,
  error_class, message, traceback, fingerprint, delay, worker, started_at, kill_at, ended_at, cost,
  provider_request_id)
SELECT j.id, j.attempt, {outcome}, %(classification)s, %(reason)s, %(step)s, %(error_class)s,
  %(message)s, %(traceback)s, %(fingerprint)s, {delay}, j.worker, j.started_at, j.kill_at, @now,
  @json(cost), %(provider_request_id)s
FROM j WHERE true ON CONFLICT (job_id, number) DO NOTHING"""

_SUCCEED = Fenced(
    f"""UPDATE jobs_job SET state = CASE WHEN {OPEN} THEN 'dead' ELSE 'succeeded' END,
      cause = CASE WHEN {OPEN} THEN 'uncertain' ELSE '' END,
      result = @json(result), lease_until = NULL, finished_at = @now WHERE {MINE}""",
    "state, cause",
    _ATTEMPT.format(
        outcome="CASE WHEN j.cause = 'uncertain' THEN 'uncertain' ELSE 'succeeded' END",
        delay="NULL",
    ),
)
# Of nearly every success there is nothing to say, and a dozen empty texts cost as much as the rest.
_SUCCEED_SILENTLY = Fenced(
    _SUCCEED.update,
    _SUCCEED.answer,
    re.sub("|".join(f"%\\({name}\\)s" for name in AttemptRecord.WORDS), "''", _SUCCEED.child),
)
_END = Fenced(
    f"""UPDATE jobs_job SET state = CASE WHEN {OPEN} THEN 'dead' ELSE %(state)s END,
      cause = CASE WHEN {OPEN} THEN 'uncertain' ELSE %(cause)s END,
      failures = failures + %(failure)s, losses = losses + %(loss)s,
      lease_until = NULL, finished_at = @now WHERE {MINE}""",
    "state, cause",
    _ATTEMPT.format(
        outcome="CASE WHEN j.cause = 'uncertain' AND %(own)s THEN 'uncertain' ELSE %(outcome)s END",
        delay="NULL",
    ),
)
# A job whose end was asked for meanwhile does not wait for a next attempt: nobody could claim it.
_QUEUE_AGAIN = f"""UPDATE jobs_job SET state = CASE WHEN cancel_requested_at IS NULL THEN 'queued'
        WHEN {OPEN} THEN 'dead' ELSE 'cancelled' END,
      cause = CASE WHEN cancel_requested_at IS NOT NULL AND {OPEN} THEN 'uncertain' ELSE '' END,
      finished_at = CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE @now END,
      lease_until = NULL, publishes = 0,
      failures = failures + %(failure)s, losses = losses + %(loss)s,
      deferrals = deferrals + %(deferral)s,
      run_at = @after(delay), wake_at = @after(delay), wait_reason = %(wait)s, wait_since =
        CASE WHEN wait_reason = 'unstartable' AND CAST(%(wait)s AS varchar) = 'unstartable'
        THEN COALESCE(wait_since, @now) ELSE @now END"""
_RETRY = Fenced(
    f"{_QUEUE_AGAIN} WHERE {MINE}",
    "state, cause",
    _ATTEMPT.format(
        outcome="CASE WHEN j.cause = 'uncertain' THEN 'uncertain' ELSE %(outcome)s END",
        delay="%(delay)s",
    ),
)
_DEFER = Fenced(f"{_QUEUE_AGAIN} WHERE {MINE}", "state, cause")


def succeed(fence: Fence, *, result: str, record: AttemptRecord) -> Ended | None:
    """Close an attempt whose handler returned. None: not mine, or closed by me before."""
    if record.says_nothing:
        kept = {"cost": record.cost, "provider_request_id": record.provider_request_id}
        return _ended(_SUCCEED_SILENTLY.send(fence.params(result=result, **kept)))
    return _ended(_SUCCEED.send(fence.params(result=result, **record.params())))


def succeed_along(
    fence: Fence, *, result: str, record: AttemptRecord, along: Along
) -> Ended | None:
    """Close an attempt, and write an author's rows with it; PostgreSQL only.

    None: not mine, closed by me before, or the author's condition does not hold.
    """
    params = fence.params(result=result, **along.params, **record.params())
    rows = send(_along(along.where, along.writes), params)
    return _ended(rows[0]) if rows else None


@lru_cache(maxsize=32)
def _along(where: str, writes: str) -> str:
    """The statement that succeeds silently, with the author's condition and expressions in it."""
    silent = _SUCCEED_SILENTLY
    return (
        f"WITH j AS ({silent.update} AND {where} RETURNING *), "
        f"c AS ({silent.child} RETURNING 1), {writes} SELECT {silent.answer} FROM j"
    )


def end(
    fence: Fence,
    record: AttemptRecord,
    *,
    cause: Cause | None,
    failure: bool = False,
    loss: bool = False,
    own: bool = True,
) -> Ended | None:
    """Make a running job final: dead with ``cause``, or cancelled where that is None.

    ``own`` is False for whoever reaps: the attempt then stays ``lost`` or ``timed_out``, which
    is what tells a later reconcile that its worker never reported.
    """
    state = State.CANCELLED if cause is None else State.DEAD
    return _ended(
        _END.send(
            fence.params(
                state=state.value,
                cause="" if cause is None else cause.value,
                failure=int(failure),
                loss=int(loss),
                own=own,
                **record.params(),
            )
        )
    )


def retry_later(
    fence: Fence, record: AttemptRecord, *, delay: float, failure: bool = False, loss: bool = False
) -> Ended | None:
    """Close an attempt and queue the job again after ``delay`` seconds.

    Where a cancel was asked for, this end of the attempt is the boundary: the job is final.
    """
    return _ended(
        _RETRY.send(
            fence.params(
                delay=delay,
                wait=WaitReason.RETRY.value,
                failure=int(failure),
                loss=int(loss),
                deferral=0,
                **record.params(),
            )
        )
    )


def defer(fence: Fence, *, delay: float, wait: WaitReason) -> Ended | None:
    """Queue the job again after ``delay`` seconds, leaving no attempt and using no budget.

    Where a cancel was asked for, this end of the attempt is the boundary: the job is final.
    """
    params = fence.params(delay=delay, wait=wait.value, failure=0, loss=0, deferral=1)
    return _ended(_DEFER.send(params))


_CLOSE_QUEUED = f"""UPDATE jobs_job SET state = CASE WHEN {OPEN} THEN 'dead' ELSE %(state)s END,
  cause = CASE WHEN {OPEN} THEN 'uncertain' ELSE %(cause)s END, finished_at = @now,
  cancel_requested_at = CASE WHEN %(cancel)s THEN @now ELSE cancel_requested_at END
WHERE id = @uuid(id) AND {QUEUED} RETURNING state, cause"""
_ASK_CANCEL = """UPDATE jobs_job SET cancel_requested_at = @now
WHERE id = @uuid(id) AND state = 'running' AND cancel_requested_at IS NULL RETURNING id"""


def bury(job_id: uuid.UUID, cause: Cause) -> Ended | None:
    """Make a queued job dead. None: it is not queued any more."""
    params = {"id": job_id, "state": State.DEAD.value, "cause": cause.value, "cancel": False}
    rows = send(_CLOSE_QUEUED, params)
    return _ended(rows[0]) if rows else None


def cancel_queued(job_id: uuid.UUID) -> Ended | None:
    """Cancel a queued job. It ends ``dead(uncertain)`` instead while an intent is open."""
    params = {"id": job_id, "state": State.CANCELLED.value, "cause": "", "cancel": True}
    rows = send(_CLOSE_QUEUED, params)
    return _ended(rows[0]) if rows else None


def ask_cancel(job_id: uuid.UUID) -> bool:
    """Ask a running job to stop at its next boundary; False if it was asked before or ended."""
    return bool(send(_ASK_CANCEL, {"id": job_id}))


def _ended(row: Row | None) -> Ended | None:
    return None if row is None else Ended(State(row[0]), row[1])
