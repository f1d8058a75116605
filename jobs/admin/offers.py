"""What may be done to a job now, by this reader, and if not, why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse

from jobs.models import Job
from jobs.models import Step as StepRow
from jobs.models.step import OPEN
from jobs.recovery.preflight import preflight
from jobs.states import State, StepState, Verb
from workspaces.actors import Actor

NAMES = {
    Verb.RESUME: "Retry from failed step",
    Verb.RESTART: "Rerun from start",
    Verb.RESOLVE: "Resolve",
    Verb.CANCEL: "Cancel",
    Verb.RECONCILE: "Reconcile",
}
"""The five verbs as people read them. An ellipsis after one means that a page comes first."""

_BY_STATE = {
    State.QUEUED: (Verb.CANCEL,),
    State.RUNNING: (Verb.CANCEL,),
    State.SUCCEEDED: (),
    State.DEAD: (Verb.RESUME, Verb.RESTART, Verb.RESOLVE),
    State.CANCELLED: (Verb.RESUME, Verb.RESTART),
}

OBSERVABLE = OPEN | Q(observed="", state=StepState.DONE) & ~Q(output_error="")
"""Steps of an ended job about which a person is asked what happened: those that are in doubt, and
those that are done without their output. A keyed one that may simply be sent again is not."""


@dataclass(frozen=True)
class Offer:
    """A verb that makes sense in this state. ``refusal`` is empty when it may be done."""

    verb: Verb
    name: str
    url: str
    refusal: str


def offers(job: Job, actor: Actor) -> tuple[Offer, ...]:
    """The verbs to offer, each asked of the same preflight that the service asks."""
    return tuple(_offered(job, verb, actor) for verb in _sensible(job))


def _sensible(job: Job) -> Iterator[Verb]:
    if job.final and StepRow.objects.filter(OBSERVABLE, job_id=job.pk).exists():
        yield Verb.RECONCILE
    yield from _BY_STATE[State(job.state)]


def _offered(job: Job, verb: Verb, actor: Actor) -> Offer:
    refusal = preflight(job, verb, actor).refusal
    return Offer(verb, NAMES[verb], page_of(job, verb), refusal.sentence if refusal else "")


def page_of(job: Job, verb: Verb) -> str:
    """The address of the page that asks before ``verb`` is done."""
    return reverse(f"admin:jobs_job_{verb.value}", args=[job.pk])
