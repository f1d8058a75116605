"""One attempt: claim, build the run, call the handler, close the attempt.

*Hole:* the handler may have done things outside its steps before a crash; those run again.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connection
from structlog.contextvars import bound_contextvars

from jobs import along, ending, gates, moves, registry, shutdown, transactions
from jobs.backoff import LONGEST
from jobs.errors import ParamsInvalid
from jobs.failure import Evidence, evidence_of
from jobs.fence import AttemptRecord, Claim, Ended
from jobs.heartbeat import HEARTBEAT
from jobs.models import Attempt, Job
from jobs.outcomes import Again, Budget, Decision, Meaning, RateLimited, after_failure
from jobs.over import REAPED, claimant, running_here
from jobs.params import canonical, decode, encode_output
from jobs.registry import KindSpec
from jobs.run import Run
from jobs.statements import UNREACHABLE, persist
from jobs.states import AttemptOutcome, Cause, State, WaitReason
from jobs.stops import (
    CancelRequested,
    DeadlinePassed,
    Defer,
    LeaseLost,
    OutputUnusable,
    Stop,
    Uncertain,
)
from jobs.tracing import carrying
from workspaces.redaction import knowing, scrub, secrets_in

logger = logging.getLogger(__name__)

INLINE_MARGIN = 60.0
UNSTARTABLE_DELAY = 30.0


class ClaimUnavailable(Exception):
    """The database could not be reached before any author's code ran: try the message again."""


def execute(kind: str, job_id: uuid.UUID) -> bool:
    """Run one attempt of a job of ``kind``; False if there was nothing to claim.

    Raises ClaimUnavailable while the database is out of reach. No failure of the job itself is
    raised: it is recorded.
    """
    spec = registry.named(kind)
    claim = _claimed(spec, job_id)
    if claim is None:
        logger.debug("job.nothing_to_claim", extra={"job_id": str(job_id)})
        return False
    secrets = secrets_in(json.loads(claim.params), spec.redact)
    with (
        bound_contextvars(**claim.words),
        knowing(secrets),
        carrying(claim.trace),
        running_here(claim.fence),
    ):
        _attempt(spec, claim)
    return True


def _claimed(spec: KindSpec, job_id: uuid.UUID) -> Claim | None:
    lease = spec.lease.total_seconds()
    if settings.FIREDOOR_INLINE:
        lease = spec.time_limit + INLINE_MARGIN
    try:
        return moves.claim(
            job_id,
            spec.name,
            worker=claimant(inline=settings.FIREDOOR_INLINE),
            lease=lease,
            time_limit=spec.time_limit,
        )
    except UNREACHABLE as error:
        logger.warning("job.claim_unavailable", extra={"job_id": str(job_id)})
        raise ClaimUnavailable(str(error)) from error


def _attempt(spec: KindSpec, claim: Claim) -> None:
    try:
        arguments = decode(spec.name, spec.params, claim.params)
    except ParamsInvalid:
        # An older worker meets newer params in every rolling deploy: the sweeper decides later.
        later = partial(moves.defer, claim.fence, delay=UNSTARTABLE_DELAY)
        unstartable = partial(later, wait=WaitReason.UNSTARTABLE)
        persist(_with_what_follows(unstartable, claim), claim.patience)
        return
    run = Run(spec, claim)
    inline = settings.FIREDOOR_INLINE
    with nullcontext() if inline else HEARTBEAT.keeping(run.journal, claim.kill_at):
        try:
            result = _handled(run, arguments)
        except LeaseLost:
            logger.warning("job.lease_lost")
        except Stop as stop:
            _stopped(run, stop)
        except BaseException as error:  # it is classified, recorded, never hidden
            if shutdown.ends_process(error):
                _interrupted(run, error)
                raise
            _failed(run, error)
        else:
            _succeeded(run, result)


def _handled(run: Run, arguments: dict[str, Any]) -> str:
    """What the handler returns, in the process that claimed and on a connection that is free."""
    try:
        result = encode_output(run.spec.handler(run, **arguments))
    except BaseException:
        run.journal.end_if_forked()
        transactions.roll_back_leftover()
        raise
    run.journal.end_if_forked()
    if transactions.roll_back_leftover():
        raise transactions.left_by("the handler")
    return result


def _interrupted(run: Run, error: BaseException) -> None:
    """Give the job back where a stopping worker struck inside its handler.

    Without the flag it is the hard time limit, or Ctrl-C: this process dies within a moment, and
    the lease tells.
    """
    if isinstance(error, SystemExit) and shutdown.asked_soon():
        connection.close()  # it may be in mid-query
        _stopped(run, Defer(0.0, "its worker was stopped", wait=WaitReason.INTERRUPTED))


def _succeeded(run: Run, result: str) -> None:
    claim = run.claim
    if run.along is not None:
        record = _record(run, AttemptOutcome.SUCCEEDED)
        if ended := along.ended(run, run.along, result, record):
            logger.info("job.attempt_closed", extra={"state": ended.state.value})
            return
        run.along.otherwise()
    # A step that is still started may have become open by the time this is written.
    doubtful = run.journal.has_started_steps()
    follows = doubtful or claim.fence.attempt > 1 or ending.something_follows_success(claim)
    succeed = partial(moves.succeed, claim.fence, result=result, record=_record_of_success(run))
    _close(succeed, run, follows=follows)


def _record_of_success(run: Run) -> AttemptRecord:
    """Evidence of a handler that returned; of the doubt too, where it left a step open."""
    record = _record(run, AttemptOutcome.SUCCEEDED)
    for name in run.journal.open_steps():
        why = f"the handler returned, but step {name} was started and its outcome is open"
        return replace(record, step=name, reason=why, message=why)
    return record


def _stopped(run: Run, stop: Stop) -> None:
    fence = run.claim.fence
    if isinstance(stop, Defer):
        delay = min(LONGEST, max(0.0, stop.delay))
        _close(partial(moves.defer, fence, delay=delay, wait=stop.wait), run, follows=True)
        return
    outcome, cause = _STOPPED[type(stop)]
    evidence = evidence_of(stop, kind=run.spec.name, step=run.step_of(stop))
    reason = evidence.message or type(stop).__name__
    record = replace(_record(run, outcome, evidence), classification="dead", reason=reason)
    _close(partial(moves.end, fence, record, cause=cause), run, follows=True)


_STOPPED: dict[type[Stop], tuple[AttemptOutcome, Cause | None]] = {
    CancelRequested: (AttemptOutcome.CANCELLED, None),
    DeadlinePassed: (AttemptOutcome.FAILED, Cause.DEADLINE),
    OutputUnusable: (AttemptOutcome.FAILED, Cause.TERMINAL),
    Uncertain: (AttemptOutcome.UNCERTAIN, Cause.UNCERTAIN),
}


def _failed(run: Run, error: BaseException) -> None:
    """Classify, decide, and move the job accordingly."""
    meaning = run.meaning_of(error)
    delay = run.spec.delay(
        run.claim.failures + 1, own=meaning.delay, retry_after=meaning.retry_after
    )
    waits = meaning.limited and _gate_closed(run, error, delay)
    decision = _decided(run, meaning, delay, spends=not waits)
    if waits and decision.cause is None:
        later = partial(moves.defer, run.claim.fence, delay=delay, wait=WaitReason.THROTTLED)
        _close(later, run, follows=True)
        return
    if meaning.outcome is AttemptOutcome.TIMED_OUT:
        connection.close()  # the limit may have struck in mid-query, which no later query survives
    evidence = evidence_of(error, kind=run.spec.name, step=run.step_of(error))
    again = Again.DEAD if decision.cause else meaning.again
    record = replace(
        _record(run, meaning.outcome, evidence), classification=again.value, reason=decision.reason
    )
    logger.warning(
        "job.attempt_failed", extra={"error_class": evidence.error_class, "reason": decision.reason}
    )
    fence = run.claim.fence
    if decision.cause is None:
        later = partial(moves.retry_later, fence, record, delay=decision.delay, failure=True)
        _close(later, run, follows=True)
        return
    end = partial(moves.end, fence, record, cause=decision.cause, failure=True)
    _close(end, run, follows=True)


def _gate_closed(run: Run, error: BaseException, delay: float) -> bool:
    """Close the gate that the provider's word is about; whether this job stands behind it.

    It then uses no budget: neither it nor its siblings will ask before the gate opens.
    """
    claim = run.claim
    named = (error.throttle if isinstance(error, RateLimited) else None) or claim.gate
    if named:
        reason = scrub(f"{type(error).__name__}: {error}")
        close = partial(gates.close, claim.workspace_id, named, seconds=delay, reason=reason)
        persist(close, claim.patience)
    return bool(named) and named == claim.gate


def _decided(run: Run, meaning: Meaning, delay: float, *, spends: bool) -> Decision:
    """What becomes of the job; what ``spends`` nothing has no budget to exceed but its time."""
    budget = _budget(run)
    if not spends:
        budget = replace(budget, max_retries=budget.failures + 1)
    decision = after_failure(meaning, budget, delay)
    if decision.cause is None and (name := _nobody_to_ask(run)):
        reason = f"{meaning.reason}; step {name} was started and nobody can be asked"
        return Decision(Cause.UNCERTAIN, reason, failure=True)
    return decision


def _nobody_to_ask(run: Run) -> str | None:
    """The open step, if any, of which a retry could only find out that it has no ``reconcile``."""
    for name in run.journal.open_steps():
        step = run.spec.step_named(name)
        if step is not None and step.reconcile is None:
            return name
    return None


def _budget(run: Run) -> Budget:
    """What the job may still spend, before this attempt's end is counted."""
    spec, claim = run.spec, run.claim
    left = claim.seconds_left
    return Budget(
        failures=claim.failures,
        losses=claim.losses,
        max_retries=spec.max_retries,
        max_losses=spec.max_losses,
        seconds_left=None if left is None else left - run.seconds,
        loss_is_failure=spec.loss_is_failure,
    )


def _record(run: Run, outcome: AttemptOutcome, evidence: Evidence | None = None) -> AttemptRecord:
    return AttemptRecord(
        outcome=outcome,
        step=evidence.step if evidence else "",
        error_class=evidence.error_class if evidence else "",
        message=evidence.message if evidence else "",
        traceback=evidence.traceback if evidence else "",
        fingerprint=evidence.fingerprint if evidence else "",
        cost=canonical(run.cost) if run.cost else None,
        provider_request_id=run.provider_request_id,
    )


def _close(move: Callable[[], Ended | None], run: Run, *, follows: bool = False) -> None:
    """Close the attempt, trying until its process is killed; never re-enters the handler.

    Where something ``follows`` the move (hooks, an event, locks to release), all of it is one
    transaction.
    """
    claim = run.claim
    together = follows or run.journal.took_locks
    work = _with_what_follows(move, claim) if together else move
    ended = persist(work, claim.patience)
    if ended is None and not _closed_before(claim):
        logger.warning("job.late_close")
        return
    logger.info("job.attempt_closed", extra={"state": ended.state.value if ended else "as before"})


def _with_what_follows(
    move: Callable[[], Ended | None], claim: Claim
) -> Callable[[], Ended | None]:
    """A move to the queue too: where a cancel was asked for, it makes the job final."""
    job_id = claim.fence.job_id

    def all_of_it() -> Ended | None:
        ended = move()
        if ended is not None:
            ending.follow(job_id, ended)
        return ended

    return partial(ending.whole, job_id, all_of_it)


def _closed_before(claim: Claim) -> bool:
    """Whether this attempt was closed by a commit of its own whose answer was lost.

    Whoever reaps writes the attempt too, and names no error: its worker never told of one. Only a
    deferral leaves no attempt, and the row to the next worker. *Hole:* once that one has it,
    a deferral whose answer was lost is logged as late.
    """
    fence = claim.fence
    attempts = Attempt.objects.filter(job_id=fence.job_id, number=fence.attempt)
    if attempts.exists():
        return attempts.filter(worker=fence.worker).exclude(REAPED).exists()
    mine = Job.objects.filter(pk=fence.job_id, attempt=fence.attempt, worker=fence.worker)
    return mine.exclude(state=State.RUNNING).exists()
