"""What follows the end of a job or attempt, in the transaction that wrote it: hooks and event.

Lock order: the job's row is locked by the move itself, then the owner's rows, then alerts.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from django.db import connection, transaction

from jobs import events, guests, locks, registry, shutdown
from jobs.fence import Claim, Ended
from jobs.models import Attempt, Event, Job
from jobs.models import Step as StepRow
from jobs.states import Cause, State
from workspaces.redaction import knowing, scrub, secrets_in

logger = logging.getLogger(__name__)
T = TypeVar("T")

_EVENTS = {
    State.SUCCEEDED: "job.succeeded",
    State.CANCELLED: "job.cancelled",
    State.DEAD: "job.dead",
}


def something_follows_success(claim: Claim) -> bool:
    """Whether the success of this job has hooks to call or an event to write."""
    spec = registry.find(claim.kind)
    if claim.is_retry or spec is None or spec.after_hooks:
        return True
    return events.wanted("job.succeeded", claim.workspace_id)


def whole(job_id: uuid.UUID | None, work: Callable[[], T]) -> T:
    """Do ``work`` in a transaction in which a job may end; again without each hook that breaks it.

    Within the caller's transaction such a hook is the caller's to meet: guests.Broken.
    """
    return guests.repeated(
        partial(guests.committed, work), partial(_follow_what_was_committed, job_id)
    )


def _follow_what_was_committed(job_id: uuid.UUID | None) -> None:
    """Where a hook's own COMMIT made a job final, do what it cut off: nobody else would."""
    if job_id is None:
        return
    with transaction.atomic():
        job = Job.objects.select_for_update().filter(pk=job_id).first()
        if job is None or not job.final:
            return
        told = Event.objects.filter(subject=str(job.pk), type=_event_type(job))
        if not told.exists():
            follow(job.pk, Ended(State(job.state), job.cause))


def follow(job_id: uuid.UUID, ended: Ended) -> None:
    """Release the job's locks; of a final state, call the owner's hooks and emit the event.

    In the transaction of the move that ``ended`` the attempt or the job.
    """
    locks.release(job_id)
    if ended.state is State.QUEUED:
        return
    job = Job.objects.get(pk=job_id)
    spec = registry.find(job.kind)
    for hook in spec.after_hooks if spec else ():
        _call_alone(job, hook)
    plain = job.state == State.SUCCEEDED and job.retry_of_id is None
    if plain and not events.wanted("job.succeeded", job.workspace_id):
        return
    events.emit(_event_type(job), job.workspace_id, job.pk, told_of(job))


def told_of(job: Job) -> dict[str, Any]:
    """What events tell of a job: nothing that needs redaction."""
    last = Attempt.objects.filter(job_id=job.pk).order_by("-number").first()
    return {
        "kind": job.kind,
        "key": job.key,
        "root_id": str(job.root_id),
        "retry_of": str(job.retry_of_id) if job.retry_of_id else None,
        "state": job.state,
        "cause": job.cause,
        "attempt": job.attempt,
        "step": last.step if last else "",
        "error_class": last.error_class if last else "",
        "message": last.message if last else "",
        "reason": last.reason if last else "",
        "fingerprint": last.fingerprint if last else "",
        "request_id": job.request_id,
        "traceparent": job.traceparent,
    }


def _event_type(job: Job) -> str:
    return "job.uncertain" if job.cause == Cause.UNCERTAIN else _EVENTS[State(job.state)]


def _call_alone(job: Job, hook: registry.After) -> None:
    """Call a hook in a savepoint: if it raises, it alone is undone, and delivered again.

    Raises guests.Broken where it ended the transaction; in the repetition it is not called.
    """
    name = f"{hook.__module__}.{hook.__qualname__}"
    who = f"hook {name} of job {job.pk}"
    if (fault := guests.broken_by(who)) is not None:
        with knowing(_secrets_of(job)):
            _tell_of_failed_hook(job, name, scrub(fault)[:500])
        return
    try:
        with guests.guest(who):
            hook(job, job.state, None)
    except guests.Broken:
        raise
    except BaseException as error:
        if shutdown.ends_process(error):
            raise
        with knowing(_secrets_of(job)):
            logger.exception("job.hook_failed", extra={"job_id": str(job.pk), "hook": name})
            fault = scrub(f"{type(error).__name__}: {error}")[:500]
        _tell_of_failed_hook(job, name, fault)


def _tell_of_failed_hook(job: Job, name: str, fault: str) -> None:
    data = {"kind": job.kind, "hook": name, "state": job.state, "error": fault}
    events.emit("job.hook_failed", job.workspace_id, job.pk, data, deliver=False)


class HookFailed(Exception):
    """A hook raised once more; its own words, scrubbed."""


@events.receives("job.hook_failed")
def call_hook_again(event: Event) -> None:
    """Deliver a final state to the hook that raised, until it returns. Raises HookFailed."""
    job = Job.objects.select_for_update().get(pk=event.subject)
    spec = registry.find(job.kind)
    for hook in spec.after_hooks if spec else ():
        if f"{hook.__module__}.{hook.__qualname__}" == event.data["hook"]:
            _call_again(job, hook, event.data["state"])


def _call_again(job: Job, hook: registry.After, state: str) -> None:
    try:
        hook(job, state, None)
    except BaseException as error:
        if shutdown.ends_process(error):
            raise
        if connection.closed_in_transaction:  # nobody can be asked what its words must not hold
            raise HookFailed(type(error).__name__) from None
        with knowing(_secrets_of(job)):
            fault = scrub(f"{type(error).__name__}: {error}")[:500]
        raise HookFailed(fault) from None  # whoever logs this knows none of the job's secrets


def _secrets_of(job: Job) -> frozenset[str]:
    """What must be hidden of a job where its own process, which knew, is gone."""
    spec = registry.find(job.kind)
    paths = spec.redact if spec else ()
    outputs = StepRow.objects.filter(job_id=job.pk).values_list("output", flat=True)
    return secrets_in(job.params, paths).union(*(secrets_in(output, paths) for output in outputs))
