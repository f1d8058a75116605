"""One upkeep pass: what keeps every job moving when messages, workers or beats are lost.

Reap expired leases, bury what can never start, publish what is due, deliver events again. Rows
are found by their state on every pass, one row a transaction, in bounded batches; a bad row never
stops the rest, and any number of passes may run at once.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pydantic
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.dispatch import Signal

from jobs import ending, events, gates, moves, registry, shutdown
from jobs.errors import ParamsInvalid
from jobs.fence import AttemptRecord, Ended, Fence, Wake, words_of
from jobs.models import Event, Job, Upkeep
from jobs.models import Step as StepRow
from jobs.outcomes import Budget, Decision, after_loss
from jobs.over import has_ended
from jobs.params import decode
from jobs.publish import publish
from jobs.registry import KindSpec
from jobs.retention import prune
from jobs.statements import UNREACHABLE, bound_waiting
from jobs.states import AttemptOutcome, Cause, State, StepState, WaitReason
from jobs.worker import identity
from workspaces import idempotency

logger = logging.getLogger(__name__)

BATCH = 500
GRACE_AFTER = timedelta(seconds=30)
UNSTARTABLE_AFTER = timedelta(hours=1)
UPKEEP = "sweep"
LOCK_SECONDS = 2
PRUNE_EVERY = timedelta(hours=1)
SHARES = "gate shares"
SHARE_EVERY = timedelta(seconds=0.4)  # by all beats together: shares of 4 are ten jobs a second
KEY_BATCHES = 100  # of a thousand expired Idempotency-Keys, an hour
hourly = Signal()  # once an hour by all beats together: apps prune their own rows
fault = Signal()  # work, error: what went wrong in upkeep, for whoever keeps a list
RELEASE_SPREAD = 5.0  # seconds over which the jobs behind an opening gate are released

# Where a job's kind is unknown here, its losses are bounded by the defaults of a kind.
_DEFAULTS = KindSpec(name="unknown.kind", handler=print, steps=(), params=pydantic.BaseModel)


@dataclass
class Pass:
    """What one pass did."""

    reaped: int = 0
    buried: int = 0
    published: int = 0
    delivered: int = 0
    pruned: int = 0
    keys: int = 0
    faults: int = 0
    graced: bool = False


def sweep(*, reap_now: bool = False, after_outage: bool = False) -> Pass:
    """One upkeep pass.

    A pass that comes more than 30 s after the one before (a start, an outage, a pause) gives
    every running job one more lease before it reaps, since their workers may have been unable
    to renew; so does one ``after_outage``, however short; ``reap_now`` skips that grace. Raises
    only what the database raises when it is out of reach at the start.
    *Hole:* after a database that stood still for less than 30 s, and broke no connection, there is
    no grace; only leases under 45 s can run out in that time.
    """
    done = Pass()
    done.graced = (_first_in_a_while() or after_outage) and not reap_now
    if done.graced:
        _extend_all()
    else:
        done.reaped = _each(_expired(), _reap, done)
    done.buried = _each(_past_deadline(), _bury_late, done)
    done.buried += _each(_unstartable(), _bury_unstartable, done)
    done.delivered = _each(_undelivered(), _deliver, done)
    _each(gates.to_probe(), gates.let_one_through, done)
    done.published = _publish_due()
    if _due_every(PRUNE_EVERY, "prune"):
        done.pruned = prune()
        done.keys = idempotency.prune(KEY_BATCHES)
        done.faults += _told_that_an_hour_is_over()
    return done


def _told_that_an_hour_is_over() -> int:
    """Let apps do what they do once an hour; how many of them failed, which stops nobody."""
    failed = 0
    for receiver, error in hourly.send_robust(sender=None):
        if isinstance(error, Exception):
            failed += 1
            name = f"{receiver.__module__}.{receiver.__qualname__}"
            logger.error("sweep.hourly_failed", exc_info=error, extra={"receiver": name})
            fault.send_robust(sender=None, work=name, error=error)
    return failed


def _first_in_a_while() -> bool:
    """Note this pass; whether the one before is long ago (or never was)."""
    with transaction.atomic():
        row = Upkeep.objects.select_for_update().filter(name=UPKEEP)
        fresh = row.filter(passed_at__gt=Now() - GRACE_AFTER).exists()
        mine = {"passed_at": Now(), "by": identity()}
        if not Upkeep.objects.filter(name=UPKEEP).update(**mine):
            # Beats that start together on an empty database all come here.
            Upkeep.objects.bulk_create([Upkeep(name=UPKEEP, **mine)], ignore_conflicts=True)
    return not fresh


def _due_every(interval: timedelta, name: str) -> bool:
    """Whether it is this pass's turn to do what is done once an interval by all beats together."""
    mine = {"passed_at": Now(), "by": identity()}
    if Upkeep.objects.filter(name=name, passed_at__lt=Now() - interval).update(**mine):
        return True
    return Upkeep.objects.get_or_create(name=name, defaults=mine)[1]


def _each(ids: list[uuid.UUID] | list[int], work: Callable[..., bool], done: Pass) -> int:
    """Do ``work`` for each id in a transaction of its own; a bad one is logged and passed over.

    So is one that waits for a lock: a worker frozen in a transaction must not freeze upkeep.
    """
    count = 0
    for each in ids:
        job_id = each if isinstance(each, uuid.UUID) else None
        try:
            count += ending.whole(job_id, partial(_bounded, work, each))
        except BaseException as error:
            if shutdown.ends_process(error) or not _database_answers():
                raise
            done.faults += 1
            logger.exception("sweep.row_failed", extra={"row": str(each), "work": work.__name__})
            fault.send_robust(sender=None, work=work.__name__.strip("_"), error=error)
    return count


def _database_answers() -> bool:
    """A connection that somebody's code closed is opened again; a lost one ends the pass."""
    try:
        connection.ensure_connection()
    except UNREACHABLE:
        return False
    return connection.is_usable()


def _bounded(work: Callable[..., bool], each: uuid.UUID | int) -> bool:
    bound_waiting(LOCK_SECONDS)
    return work(each)


def _locked(job_id: uuid.UUID, **state: object) -> Job | None:
    return _lockable().filter(pk=job_id, **state).first()


def _lockable() -> QuerySet[Job]:
    """Jobs, locked as they are read; those that somebody else holds are left out."""
    skip = connection.features.has_select_for_update_skip_locked
    return Job.objects.select_for_update(skip_locked=skip, of=("self",) if skip else ())


# --- leases --------------------------------------------------------------------------------------


def _expired() -> list[uuid.UUID]:
    running = Job.objects.filter(state=State.RUNNING)
    late = list(running.filter(lease_until__lt=Now()).values_list("pk", flat=True)[:BATCH])
    if settings.FIREDOOR_INLINE:
        rows = running.values_list("pk", "worker")[:BATCH]
        late += [pk for pk, worker in rows if has_ended(worker) and pk not in late]
    return late


def _extend_all() -> None:
    """Give every running job one more lease: its worker may have had no database to renew it.

    A row that somebody holds is left out: whoever writes to it renews its lease, or is frozen.
    """
    for spec in registry.KINDS.values():
        _extend(Q(kind=spec.name), spec.lease)
    _extend(~Q(kind__in=list(registry.KINDS)), _DEFAULTS.lease)


def _extend(which: Q, lease: timedelta) -> None:
    until = Now() + lease
    with transaction.atomic():
        short = _lockable().filter(which, state=State.RUNNING, lease_until__lt=until)
        ids = list(short.values_list("pk", flat=True))
        Job.objects.filter(pk__in=ids).update(lease_until=until)


def _reap(job_id: uuid.UUID) -> bool:
    """Close the attempt of a worker that no longer renews its lease."""
    job = _locked(job_id, state=State.RUNNING)
    if job is None or not _is_over(job):
        return False
    timed_out = Job.objects.filter(
        pk=job_id, kill_at__lt=Now(), kill_at__lte=F("lease_until")
    ).exists()
    decision = _after_loss(job, timed_out=timed_out)
    outcome = AttemptOutcome.TIMED_OUT if timed_out else AttemptOutcome.LOST
    record = AttemptRecord(
        outcome=outcome,
        classification="dead" if decision.cause or job.cancel_requested_at else "retry",
        reason=decision.reason,
        step=_step_begun(job),
        message=f"{decision.reason}: {job.worker} did not renew its lease",
    )
    ended = _close(job, record, decision)
    if ended is not None:
        ending.follow(job.pk, ended)
    words = words_of(
        job.pk, job.kind, job.attempt, job.workspace_id, job.request_id, job.traceparent
    )
    logger.warning("sweep.reaped", extra={**words, "reason": decision.reason})
    return ended is not None


def _step_begun(job: Job) -> str:
    """The step whose intent the lost attempt wrote and left, if it did."""
    begun = StepRow.objects.filter(job_id=job.pk, attempt=job.attempt, state=StepState.STARTED)
    return begun.values_list("name", flat=True).first() or ""


def _is_over(job: Job) -> bool:
    if settings.FIREDOOR_INLINE and has_ended(job.worker):
        return True
    return Job.objects.filter(pk=job.pk, lease_until__lt=Now()).exists()


def _close(job: Job, record: AttemptRecord, decision: Decision) -> Ended | None:
    fence = Fence(job.pk, job.attempt, job.worker, lease=0.0)
    counts = {"failure": decision.failure, "loss": decision.loss}
    if job.cancel_requested_at is not None:
        return moves.end(fence, record, cause=None, own=False, **counts)
    if decision.cause is not None:
        return moves.end(fence, record, cause=decision.cause, own=False, **counts)
    return moves.retry_later(fence, record, delay=decision.delay, **counts)


def _after_loss(job: Job, *, timed_out: bool) -> Decision:
    spec = registry.find(job.kind) or _DEFAULTS
    left = (
        Job.objects.filter(pk=job.pk)
        .annotate(left=F("deadline_at") - Now())
        .values_list("left", flat=True)[0]
    )
    budget = Budget(
        failures=job.failures,
        losses=job.losses,
        max_retries=spec.max_retries,
        max_losses=spec.max_losses,
        seconds_left=left.total_seconds() if left is not None else None,
        loss_is_failure=spec.loss_is_failure,
    )
    return after_loss(budget, spec.delay(job.failures + job.losses + 1), timed_out=timed_out)


# --- what can never start ------------------------------------------------------------------------


def _past_deadline() -> list[uuid.UUID]:
    late = Job.objects.filter(state=State.QUEUED, deadline_at__lte=Now())
    return list(late.values_list("pk", flat=True)[:BATCH])


def _unstartable() -> list[uuid.UUID]:
    stuck = Job.objects.filter(
        state=State.QUEUED,
        wait_reason=WaitReason.UNSTARTABLE,
        wait_since__lt=Now() - UNSTARTABLE_AFTER,
    )
    return list(stuck.values_list("pk", flat=True)[:BATCH])


def _bury_late(job_id: uuid.UUID) -> bool:
    return _bury(job_id, Cause.DEADLINE)


def _bury_unstartable(job_id: uuid.UUID) -> bool:
    """Bury what still cannot start; what this code can start was marked by an older one."""
    job = _locked(job_id, state=State.QUEUED)
    if job is not None and _can_start(job):
        moves.mark_startable(job_id)
        return False
    return job is not None and _bury(job_id, Cause.UNSTARTABLE)


def _can_start(job: Job) -> bool:
    spec = registry.find(job.kind)
    if spec is None:
        return False
    try:
        decode(spec.name, spec.params, json.dumps(job.params))
    except ParamsInvalid:
        return False
    return True


def _bury(job_id: uuid.UUID, cause: Cause) -> bool:
    if _locked(job_id, state=State.QUEUED) is None:
        return False
    ended = moves.bury(job_id, cause)
    if ended is not None:
        ending.follow(job_id, ended)
    return ended is not None


# --- waking and telling --------------------------------------------------------------------------


def _publish_due() -> int:
    """Publish what is due; the first broker error ends it for this pass."""
    if settings.FIREDOOR_INLINE:
        _mark_unknown()
        publish([])
        return 0
    # In one transaction: a wake that could not be sent must not push the next one further away.
    moves.park_behind_gates(RELEASE_SPREAD)
    with transaction.atomic():
        return _published(_due())


def fill_shares() -> int:
    """Publish what the shares behind gates let through by now, and do nothing else of a pass."""
    moves.park_behind_gates(RELEASE_SPREAD)
    with transaction.atomic():
        return _published(_gate_shares())


def until_shares() -> float | None:
    """Seconds until shares behind gates may be filled up; None where nothing due waits for it."""
    kinds = [spec.name for spec in _shared_by_gate()]
    due = Job.objects.filter(state=State.QUEUED, kind__in=kinds, wake_at__lte=Now())
    if settings.FIREDOOR_INLINE or not due.exists():
        return None
    last = Upkeep.objects.filter(name=SHARES).annotate(left=F("passed_at") + SHARE_EVERY - Now())
    left = last.values_list("left", flat=True).first()
    return 0.0 if left is None else max(0.0, left.total_seconds())


def _published(due: list[Wake]) -> int:
    for wake in due:
        if registry.find(wake.kind) is None:
            moves.mark_unstartable(wake.job_id)
    if not publish(due):
        transaction.set_rollback(True)
        return 0
    return len(due)


def _mark_unknown() -> None:
    """Note since when nobody knows the kind of what is due, where nothing is taken to publish."""
    due = Job.objects.filter(state=State.QUEUED, run_at__lte=Now())
    unknown = due.exclude(kind__in=list(registry.KINDS)).exclude(wait_reason=WaitReason.UNSTARTABLE)
    for job_id in list(unknown.values_list("pk", flat=True)[:BATCH]):
        moves.mark_unstartable(job_id)


def _due() -> list[Wake]:
    shared = [spec for spec in registry.KINDS.values() if spec.is_shared]
    due = moves.take_due(BATCH, [spec.name for spec in shared])
    for spec in shared:
        if spec.per_workspace is not None:
            due += moves.take_shares(spec.name, spec.per_workspace, BATCH)
    return due + _gate_shares()


def _gate_shares() -> list[Wake]:
    """What the shares behind gates let through, if it is time.

    The turn is a row that stays locked until the messages are sent: two passes never overshoot.
    """
    due: list[Wake] = []
    kinds = _shared_by_gate()
    if kinds and _due_every(SHARE_EVERY, SHARES):
        for spec in kinds:
            due += moves.take_gate_shares(spec.name, spec.per_gate or 0, BATCH)
    return due


def _shared_by_gate() -> list[KindSpec]:
    return [spec for spec in registry.KINDS.values() if spec.per_gate is not None]


def _undelivered() -> list[int]:
    """Events to deliver again, each a little later than the time before."""
    waiting = Event.objects.filter(delivered_at__isnull=True, tries__lt=events.MAX_TRIES)
    due = Q(tries__lte=3)
    for tries in range(4, events.MAX_TRIES):
        due |= Q(tries=tries, created_at__lt=Now() - timedelta(seconds=2 ** min(tries, 14)))
    return list(waiting.filter(due).order_by("pk").values_list("pk", flat=True)[:BATCH])


def _deliver(event_id: int) -> bool:
    event = (
        Event.objects.select_for_update(
            skip_locked=connection.features.has_select_for_update_skip_locked
        )
        .filter(pk=event_id, delivered_at__isnull=True)
        .first()
    )
    return event is not None and events.deliver_now(event)
