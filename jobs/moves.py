"""Every statement that moves a job or writes under its fence. Nothing else does.

The fence is attempt number *and* worker: a worker's write locks its job row and matches both in
the same statement, so a late worker changes nothing. (The number alone can be issued twice, after
a crash that forgot an asynchronously committed claim. A bare ``INSERT … SELECT … WHERE attempt=``
is no fence under READ COMMITTED.) Database time decides everywhere, never a worker's clock.

No job becomes final with an open intent except as ``dead(uncertain)``: every statement that makes
a job final asks ``_OPEN`` in the same statement.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.db import connection

from jobs.fence import AttemptRecord, Claim, Ended, Fence, Standing
from jobs.statements import Fenced, Row, send
from jobs.states import Cause, State, WaitReason

FIRST_WAKE = 30.0
LAST_WAKE = 1800.0

_MINE = "id = @uuid(id) AND attempt = %(attempt)s AND worker = %(worker)s AND state = 'running'"
_OPEN = (
    "EXISTS (SELECT 1 FROM jobs_step s WHERE s.job_id = jobs_job.id AND s.state = 'started'"
    " AND s.observed = '' AND s.late_at IS NULL AND s.opens_at <= @now)"
)
# The plain column: SQLite 3.40.1 answered "cancel_requested_at IS NOT NULL" with 1 for NULL here.
_STANDING = "cancel_requested_at, deadline_at <= @now"


# --- in ------------------------------------------------------------------------------------------

_INSERT = """
INSERT INTO jobs_job (id, workspace_id, kind, key, params, params_digest, version, queue, gate,
  state, run_at, wake_at, wait_reason, wait_since, deadline_at, root_id, actor, request_id,
  traceparent)
SELECT @uuid(id), w.id, %(kind)s, %(key)s, @json(params), %(digest)s, %(version)s, %(queue)s,
  %(gate)s, 'queued', m.run_at, CASE WHEN %(waits)s THEN m.run_at ELSE @after(first_wake) END,
  CASE WHEN %(waits)s THEN 'scheduled' ELSE '' END, CASE WHEN %(waits)s THEN @now END,
  {deadline}, @uuid(id), %(actor)s, %(request_id)s, %(traceparent)s
FROM workspaces_workspace w
CROSS JOIN (SELECT COALESCE(@time(eta), @after(countdown)) AS run_at) m
WHERE w.id = %(workspace)s AND w.closed_at IS NULL {lock}
ON CONFLICT (workspace_id, kind, key) WHERE retry_of_id IS NULL DO NOTHING
RETURNING id
"""


def insert(params: dict[str, Any]) -> bool:
    """Insert one job in the caller's transaction; False for a taken key or a closed workspace.

    The workspace is locked ``FOR KEY SHARE`` on PostgreSQL, so that closing it and enqueueing
    into it cannot pass each other.
    """
    postgresql = connection.vendor == "postgresql"
    later = (
        "greatest(@now, m.run_at) + %(deadline)s * interval '1 second'"
        if postgresql
        else "django_format_dtdelta('+', max(@now, m.run_at),"
        " CAST(%(deadline)s * 1000000 AS INTEGER))"
    )
    sql = _INSERT.format(
        deadline="NULL" if params["deadline"] is None else later,
        lock="FOR KEY SHARE OF w" if postgresql else "",
    )
    sent = {
        name: value for name, value in params.items() if name != "deadline" or value is not None
    }
    return bool(send(sql, {**sent, "first_wake": FIRST_WAKE}))


# --- claim ---------------------------------------------------------------------------------------

_CLAIM = Fenced(
    update="""UPDATE jobs_job SET state = 'running', attempt = attempt + 1, worker = %(worker)s,
      started_at = @now, lease_until = @after(lease), kill_at = @after(time_limit)
    WHERE id = @uuid(id) AND state = 'queued' AND run_at <= @now
      AND (deadline_at IS NULL OR deadline_at > @now) AND cancel_requested_at IS NULL""",
    answer="""attempt, kind, key, params, version, workspace_id, root_id, epoch, failures, losses,
      deadline_at, retry_of_id, request_id, traceparent, @now""",
)
# The claim may commit asynchronously: a crash that forgets it leaves the job queued, and the
# fence tells the forgotten attempt from the next one. Intents and outcomes never do.
_CLAIM_POSTGRESQL = Fenced(
    update=_CLAIM.update,
    answer=_CLAIM.answer + ", set_config('synchronous_commit', 'off', true)",
)


def claim(job_id: uuid.UUID, *, worker: str, lease: float, time_limit: float) -> Claim | None:
    """Take a queued, due job, or None. *Hole:* a claim whose answer is lost costs one loss."""
    statement = _CLAIM_POSTGRESQL if connection.vendor == "postgresql" else _CLAIM
    params = {"id": job_id, "worker": worker, "lease": lease, "time_limit": time_limit}
    row = statement.send(params)
    if row is None:
        return None
    now, deadline = _moment(row[14]), row[10]
    return Claim(
        fence=Fence(job_id, row[0], worker, lease),
        kind=row[1],
        key=row[2],
        params=row[3],
        version=row[4],
        workspace_id=row[5],
        root_id=_uuid(row[6]),
        epoch=row[7],
        failures=row[8],
        losses=row[9],
        seconds_left=None if deadline is None else (_moment(deadline) - now).total_seconds(),
        is_retry=row[11] is not None,
        request_id=row[12],
        traceparent=row[13],
    )


def _moment(value: Any) -> datetime:
    return (
        value if isinstance(value, datetime) else datetime.fromisoformat(value).replace(tzinfo=None)
    )


def _uuid(value: Any) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


# --- under the fence -----------------------------------------------------------------------------

_HOLD = f"UPDATE jobs_job SET lease_until = @after(lease) WHERE {_MINE}"
_RENEW = Fenced(_HOLD, _STANDING)
_PROGRESS = Fenced(
    f"UPDATE jobs_job SET lease_until = @after(lease), progress = @json(progress) WHERE {_MINE}",
    _STANDING,
)
_BEGIN = Fenced(
    _HOLD,
    _STANDING,
    """INSERT INTO jobs_step (job_id, name, effect, boundary, state, attempt, intent_at, opens_at)
    SELECT j.id, %(name)s, %(effect)s, %(boundary)s, 'started', j.attempt, @now, @after(remembers)
    FROM j WHERE true
    ON CONFLICT (job_id, name) DO UPDATE SET state = 'started', attempt = excluded.attempt,
      intent_at = excluded.intent_at, opens_at = excluded.opens_at, carried_from = NULL
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


# --- the end of an attempt -----------------------------------------------------------------------

_ATTEMPT = """INSERT INTO jobs_attempt (job_id, number, outcome, classification, reason, step,
  error_class, message, traceback, fingerprint, delay, worker, started_at, kill_at, ended_at, cost,
  provider_request_id)
SELECT j.id, j.attempt, {outcome}, %(classification)s, %(reason)s, %(step)s, %(error_class)s,
  %(message)s, %(traceback)s, %(fingerprint)s, {delay}, j.worker, j.started_at, j.kill_at, @now,
  @json(cost), %(provider_request_id)s
FROM j WHERE true ON CONFLICT (job_id, number) DO NOTHING"""

_SUCCEED = Fenced(
    f"""UPDATE jobs_job SET state = CASE WHEN {_OPEN} THEN 'dead' ELSE 'succeeded' END,
      cause = CASE WHEN {_OPEN} THEN 'uncertain' ELSE '' END,
      result = @json(result), lease_until = NULL, finished_at = @now WHERE {_MINE}""",
    "state, cause",
    _ATTEMPT.format(
        outcome="CASE WHEN j.cause = 'uncertain' THEN 'uncertain' ELSE 'succeeded' END",
        delay="NULL",
    ),
)
_END = Fenced(
    f"""UPDATE jobs_job SET state = CASE WHEN {_OPEN} THEN 'dead' ELSE %(state)s END,
      cause = CASE WHEN {_OPEN} THEN 'uncertain' ELSE %(cause)s END,
      failures = failures + %(failure)s, losses = losses + %(loss)s,
      lease_until = NULL, finished_at = @now WHERE {_MINE}""",
    "state, cause",
    _ATTEMPT.format(
        outcome="CASE WHEN j.cause = 'uncertain' AND %(own)s THEN 'uncertain' ELSE %(outcome)s END",
        delay="NULL",
    ),
)
_QUEUE_AGAIN = """UPDATE jobs_job SET state = 'queued', lease_until = NULL, publishes = 0,
      failures = failures + %(failure)s, losses = losses + %(loss)s,
      deferrals = deferrals + %(deferral)s,
      run_at = @after(delay), wake_at = @after(delay), wait_reason = %(wait)s, wait_since =
        CASE WHEN wait_reason = 'unstartable' AND %(wait)s = 'unstartable'
        THEN COALESCE(wait_since, @now) ELSE @now END"""
_RETRY = Fenced(
    f"{_QUEUE_AGAIN} WHERE {_MINE}",
    "state, cause",
    _ATTEMPT.format(outcome="%(outcome)s", delay="%(delay)s"),
)
_DEFER = Fenced(f"{_QUEUE_AGAIN} WHERE {_MINE}", "state, cause")


def succeed(fence: Fence, *, result: str, record: AttemptRecord) -> Ended | None:
    """Close an attempt whose handler returned. None: not mine, or closed by me before."""
    return _ended(_SUCCEED.send(fence.params(result=result, **record.params())))


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
    """Close an attempt and queue the job again after ``delay`` seconds."""
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
    """Queue the job again after ``delay`` seconds, leaving no attempt and using no budget."""
    params = fence.params(delay=delay, wait=wait.value, failure=0, loss=0, deferral=1)
    return _ended(_DEFER.send(params))


def _ended(row: Row | None) -> Ended | None:
    return None if row is None else Ended(State(row[0]), row[1])


# --- from outside a run --------------------------------------------------------------------------

_CLOSE_QUEUED = f"""UPDATE jobs_job SET state = CASE WHEN {_OPEN} THEN 'dead' ELSE %(state)s END,
  cause = CASE WHEN {_OPEN} THEN 'uncertain' ELSE %(cause)s END, finished_at = @now,
  cancel_requested_at = CASE WHEN %(cancel)s THEN @now ELSE cancel_requested_at END
WHERE id = @uuid(id) AND state = 'queued' RETURNING state, cause"""
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


# --- waking --------------------------------------------------------------------------------------

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
    return [(_uuid(row[0]), row[1]) for row in rows]


def mark_unstartable(job_id: uuid.UUID) -> None:
    """Note since when nobody here knows the kind; an hour later the sweeper buries the job."""
    send(_MARK_UNSTARTABLE, {"id": job_id})


# --- successors ----------------------------------------------------------------------------------

_SUCCESSOR = """
INSERT INTO jobs_job (id, workspace_id, kind, key, params, params_digest, version, queue, gate,
  state, run_at, wake_at, deadline_at, retry_of_id, root_id, epoch, mode, actor, request_id,
  traceparent)
SELECT @uuid(new), workspace_id, kind, key, params, params_digest, %(version)s, queue, gate,
  'queued', @now, @after(first_wake), {deadline}, id, root_id, epoch + %(epoch)s, %(mode)s,
  %(actor)s, %(request_id)s, %(traceparent)s
FROM jobs_job WHERE id = @uuid(id) AND state IN ('dead', 'cancelled')
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
    """Insert the one successor of a dead or cancelled job; ``retry_of`` is unique."""
    until = "NULL" if deadline is None else "@after(deadline)"
    sent = {**params, "first_wake": FIRST_WAKE}
    if deadline is not None:
        sent["deadline"] = deadline
    return bool(send(_SUCCESSOR.format(deadline=until), sent))


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
    send(_CARRY.format(**words), {"old": old, "id": old, "new": new, "name": name})


# --- what an operator adds -----------------------------------------------------------------------

_RESOLVE = """UPDATE jobs_job SET resolved_at = @now, resolution = %(resolution)s
WHERE id = @uuid(id) AND state = 'dead' AND resolved_at IS NULL RETURNING id"""
_OBSERVE = """UPDATE jobs_step SET observed = %(observed)s, observed_output = @json(output),
  observed_by = %(actor)s, observed_at = @now
WHERE job_id = @uuid(id) AND name = %(name)s AND observed = ''
  AND (state = 'started' OR (state = 'done' AND output_error <> '')) RETURNING id"""


def resolve(job_id: uuid.UUID, resolution: str) -> bool:
    """Close a dead letter without running it; written once."""
    return bool(send(_RESOLVE, {"id": job_id, "resolution": resolution}))


def observe(job_id: uuid.UUID, *, name: str, observed: str, output: str | None, actor: str) -> bool:
    """Record what was observed about an open step; written once, onto empty fields."""
    params = {"id": job_id, "name": name, "observed": observed, "output": output, "actor": actor}
    return bool(send(_OBSERVE, params))
