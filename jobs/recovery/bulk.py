"""The engine of operations: the kind ``jobs.operation``, one local step an item.

A local step is one transaction: it locks the engine's job by its fence, does the item's deed, and
writes the item's outcome and the checkpoint. So an item is done once, whatever crashes, and
whoever holds the engine's row (pause, stop) knows that no item is under way.
*Hole:* what a deed sets off, such as the retried job, has the guarantees of its own kind.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F
from django.db.models.functions import Coalesce, Greatest, Now
from django.utils import timezone

from jobs import registry, shutdown
from jobs.errors import Busy, OperationInvalid, Refused
from jobs.failure import class_name
from jobs.models import Job, Operation, OperationItem
from jobs.models.operation import GATE
from jobs.outcomes import Transient, classify
from jobs.params import model_of
from jobs.recovery import course, watch
from jobs.recovery.item_verbs import Mandate, verb_named
from jobs.recovery.job_verbs import ENGINE
from jobs.recovery.preflight import RETRIES
from jobs.run import Run
from jobs.statements import UNREACHABLE
from jobs.states import AttemptOutcome, ItemOutcome, OperationState, State, Verb
from jobs.steps import step
from jobs.stops import Defer, Stop
from workspaces.actors import actor_named
from workspaces.errors import FiredoorError
from workspaces.permissions import SMALL_OPERATION, NotAllowed, require
from workspaces.redaction import scrub

logger = logging.getLogger(__name__)

BATCH = 100
TURN_SECONDS = 30.0  # after which other operations have their turn of the queue
CANARY_SECONDS = 5.0  # between two looks at canaries that have not ended
PAUSED_SECONDS = 60.0  # only met where somebody opened the gate of a paused operation by hand
LATE = timedelta(seconds=2)  # lateness of wakes that the pace may make good
_FAILURES = (NotAllowed.code, Busy.code)


def operate(run: Run, *, operation_id: str) -> dict[str, int]:
    """Do the pending items in their order; the counts by outcome."""
    operation = Operation.objects.get(pk=operation_id)
    try:
        verb_named(operation.verb)
    except OperationInvalid as unknown:  # an older worker meets a newer verb in rolling deploys
        raise Transient(unknown.sentence) from unknown
    while positions := _next(run, operation):
        for position in positions:
            run(act_on.at(position), operation_id, position)
        if run.seconds > TURN_SECONDS:
            raise Defer(0.0, "other operations have their turn")
    return course.counts(operation.pk)


def _next(run: Run, operation: Operation) -> list[int]:
    """The positions to do now; none when nothing is left to do, or it was stopped."""
    operation.refresh_from_db()
    left = course.pending(operation).order_by("position").values_list("position", flat=True)
    positions = list(left[:BATCH])
    if not positions or operation.state == OperationState.STOPPED:
        return []
    if operation.state == OperationState.PAUSED:
        raise Defer(PAUSED_SECONDS, "the operation is paused")
    over = positions[0] - 1  # not counted: there may be thousands, and this is each turn's first
    run.progress(over / operation.selected, f"{over} of {operation.selected}")
    if operation.canary:
        ahead = operation.canary - watch.canaries(operation)
        if ahead > 0:
            return positions[:ahead]
        run(end_canary, str(operation.pk))
    if watch.trouble(operation):
        _pause_for_trouble(run, operation)
    return positions


@step.local("canary")
def end_canary(operation_id: str) -> str:
    """Wait until the canaries have ended, then pause if one of them did so badly."""
    operation = _in_course(operation_id)
    verdict = watch.canary(operation)
    if verdict is None:
        raise Defer(CANARY_SECONDS, "its canaries have not ended")
    if verdict:
        course.pause(operation, verdict, by_itself=True)
    return verdict


@step.local("item", many=True)
def act_on(operation_id: str, position: int) -> str:
    """Do one item and record what became of it."""
    operation = _in_course(operation_id)
    item = course.pending(operation).get(position=position)
    acted = _acted(operation, item)
    OperationItem.objects.filter(pk=item.pk).update(done_at=Now(), **acted.__dict__)
    if acted.outcome is not ItemOutcome.SKIPPED:
        _take_from_rate(operation)
    if acted.outcome is ItemOutcome.FAILED and course.pending(operation).exists():
        _mind_failure(operation, acted)
    return acted.outcome.value


@dataclass(frozen=True)
class Acted:
    """What became of an item, as its row says it."""

    outcome: ItemOutcome
    code: str = ""
    sentence: str = ""
    result_id: str = ""


def _in_course(operation_id: str) -> Operation:
    """The operation, if it may do something now. The engine's row is locked, so it stays so."""
    ahead = ExpressionWrapper(F("paced_until") - Now(), output_field=DurationField())
    operation = Operation.objects.annotate(ahead=ahead).get(pk=operation_id)
    if operation.state != OperationState.RUNNING:
        raise Defer(0.0, f"the operation is {operation.state}")
    if operation.ahead is not None and operation.ahead > timedelta(0):
        raise Defer(operation.ahead.total_seconds(), "the operation keeps its rate")
    return operation


def _acted(operation: Operation, item: OperationItem) -> Acted:
    actor = actor_named(operation.actor)
    mandate = Mandate(operation.workspace_id, actor, operation.reason, f"operation:{operation.pk}")
    try:
        with transaction.atomic():
            require(actor, right_for(operation), operation.workspace_id)
            result_id = verb_named(operation.verb).act(item.object_id, mandate)
    except FiredoorError as refusal:
        failed = refusal.code in _FAILURES
        outcome = ItemOutcome.FAILED if failed else ItemOutcome.SKIPPED
        return Acted(outcome, refusal.code[:60], scrub(refusal.sentence))
    except BaseException as error:
        if _is_no_fault_of_the_item(error):
            raise
        logger.exception("operation.item_failed", extra={"object_id": item.object_id})
        return Acted(ItemOutcome.FAILED, "error", scrub(f"{class_name(error)}: {error}")[:2000])
    return Acted(ItemOutcome.DONE, result_id=result_id)


def right_for(operation: Operation) -> str:
    """The right that it takes to let this operation run."""
    return "operations.run" if operation.eligible <= SMALL_OPERATION else "operations.large"


def _is_no_fault_of_the_item(error: BaseException) -> bool:
    """Whether the engine's own retry answers it: no database, a deadlock, or its time was up."""
    if isinstance(error, (*UNREACHABLE, Stop)) or shutdown.ends_process(error):
        return True
    return classify(error, now=timezone.now()).outcome is AttemptOutcome.TIMED_OUT


def _take_from_rate(operation: Operation) -> None:
    """Move the moment before which nothing more is done; a late wake is made good, up to 2 s."""
    if operation.rate_per_minute is None:
        return
    since = Greatest(Coalesce(F("paced_until"), Now()), Now() - LATE)
    interval = timedelta(minutes=1) / operation.rate_per_minute
    until = ExpressionWrapper(since + interval, output_field=DateTimeField())
    Operation.objects.filter(pk=operation.pk).update(paced_until=until)


def _mind_failure(operation: Operation, acted: Acted) -> None:
    """Pause where the failed item was a canary, or where the stop rule says so."""
    why = watch.trouble(operation)
    if watch.canaries(operation, beyond=1) <= operation.canary:
        why = "a canary could not be done"
    if why:
        course.pause(operation, f"{why}. The last one: {acted.sentence}", by_itself=True)


def _pause_for_trouble(run: Run, operation: Operation) -> None:
    with transaction.atomic():
        run.journal.hold()
        operation.refresh_from_db()
        why = watch.trouble(operation)
        if why and operation.state == OperationState.RUNNING:
            course.pause(operation, why, by_itself=True)


def refuse(job: Job, verb: str) -> None:
    """The engine's job is not cancelled under its operation, nor retried once that has ended."""
    operation = Operation.objects.filter(job_id=job.pk).first()
    if operation is None:
        return
    if verb == Verb.CANCEL:
        raise Refused(
            "operation",
            "Nothing was done: this job drives an operation. Pause or stop that instead: "
            f"manage.py job operation stop {operation.pk}",
        )
    if verb in RETRIES and operation.state != OperationState.PAUSED:
        raise Refused(
            "operation",
            f"Nothing was done: the operation that this job drove is {operation.state}. "
            "Make a new one for what is left.",
        )


def follow(job: Job, verb: str, successor: Job | None) -> None:
    """Bring the operation where its engine is."""
    operation = Operation.objects.select_for_update().filter(job_id=job.pk).first()
    if operation is None or operation.ended:
        return
    if successor is not None:
        Operation.objects.filter(pk=operation.pk).update(job_id=successor.pk)
        operation.refresh_from_db()
        course.run(operation)
    elif verb == State.SUCCEEDED:
        course.finish(operation)
    elif verb == State.DEAD:
        course.pause(operation, f"its engine, job {job.pk}, is dead ({job.cause})")
    elif verb == State.CANCELLED:
        course.stop(operation, f"its engine, job {job.pk}, was cancelled")
    elif verb == Verb.RESOLVE:
        course.stop(operation, f"its engine, job {job.pk}, was resolved instead of retried")


SPEC = registry.KindSpec(
    name=ENGINE,
    handler=operate,
    steps=(end_canary, act_on),
    params=model_of(ENGINE, operate),
    queue="operations",
    permission="operations.run",
    max_retries=20,
    retry_backoff=2,
    max_losses=20,
    deadline=None,
    rereads=False,
    throttle=lambda operation_id: f"{GATE}{operation_id}",
    before_hooks=[refuse],
    after_hooks=[follow],
)


def register() -> None:
    """Make the kind known. Called once, when the app is ready."""
    registry.register(SPEC)
