"""What would happen if an operator did it now: looked up, then decided by ``plan``."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError

from jobs import registry
from jobs.curtain import Curtain
from jobs.errors import JobNotFound
from jobs.models import Attempt, Job
from jobs.models import Step as StepRow
from jobs.models.step import OPEN
from jobs.recovery.plan import Check, Plan, PlannedStep, digest_of, planned_steps
from jobs.registry import KindSpec
from jobs.states import RETRYABLE, State, Verb, Word
from workspaces.actors import Actor, as_actor
from workspaces.permissions import allowed, missing_right

if TYPE_CHECKING:
    from django.contrib.auth.models import User

RETRIES = (Verb.RESUME, Verb.RESTART)


class Governing:
    """What a verb's right depends on: the kind's permission, and the risk of this very job."""

    def __init__(self, job: Job) -> None:
        spec = registry.find(job.kind)
        self.permission = spec.permission if spec else "jobs.operate"
        self.risk = spec.risk_of(job) if spec else 3


def visible_job(job_id: uuid.UUID | str, actor: Actor) -> Job:
    """The job, if the actor may see it. JobNotFound says the same for one of another workspace."""
    try:
        job = Job.objects.filter(pk=job_id).first()
    except (ValueError, TypeError, ValidationError):  # not an id at all
        job = None
    if job is None or not allowed(actor, "jobs.view", job.workspace_id):
        raise no_such_job(job_id)
    return job


def no_such_job(job_id: object) -> JobNotFound:
    return JobNotFound(
        f"Nothing was done: there is no job {str(job_id)[:60]!r} that you may see. Check the id."
    )


@dataclass
class Facts:
    """What is recorded about one job besides its row, as far as a plan depends on it."""

    steps: list[StepRow] = field(default_factory=list)
    open_names: set[str] = field(default_factory=set)
    successor: Job | None = None
    costs: list[dict[str, Any]] = field(default_factory=list)


def facts_about(job_ids: Sequence[uuid.UUID], verb: Verb) -> dict[uuid.UUID, Facts]:
    """The facts of each job: four queries for a retry, two for a resolve, else one."""
    facts = {job_id: Facts() for job_id in job_ids}
    steps = StepRow.objects.filter(job_id__in=job_ids)
    for job_id, name in steps.filter(OPEN).values_list("job_id", "name"):
        facts[job_id].open_names.add(name)
    if verb in (*RETRIES, Verb.RESOLVE):
        _add_successors(facts, job_ids)
    if verb in RETRIES:
        _add_facts_for_retries(facts, job_ids)
    return facts


def _add_successors(facts: dict[uuid.UUID, Facts], job_ids: Sequence[uuid.UUID]) -> None:
    for successor in Job.objects.filter(retry_of_id__in=job_ids).only("retry_of", "mode", "actor"):
        if successor.retry_of_id is not None:
            facts[successor.retry_of_id].successor = successor


def _add_facts_for_retries(facts: dict[uuid.UUID, Facts], job_ids: Sequence[uuid.UUID]) -> None:
    steps = StepRow.objects.filter(job_id__in=job_ids).order_by("pk")
    for step in steps.defer("output", "late_output", "observed_output"):
        facts[step.job_id].steps.append(step)
    paid = Attempt.objects.filter(job_id__in=job_ids, cost__isnull=False).order_by("number")
    for job_id, number, cost in paid.values_list("job_id", "number", "cost"):
        facts[job_id].costs.append({"attempt": number, **(cost or {})})


def preflight(job: Job, verb: Verb | str, actor: Actor | User, facts: Facts | None = None) -> Plan:
    """What ``verb`` would do to ``job`` now, and whether it may be done by ``actor``.

    Reads only. The same function plans again under the lock when the verb is done, so a plan
    with an equal digest is what will happen. ``facts`` spares the queries of many jobs at once.
    """
    verb = Verb(verb)
    spec = registry.find(job.kind)
    facts = facts or facts_about([job.pk], verb)[job.pk]
    steps: tuple[PlannedStep, ...] = ()
    if verb in RETRIES and spec is not None:
        steps = planned_steps(verb, spec, facts.steps, frozenset(facts.open_names))
    checks = [*_rights(job, verb, as_actor(actor)), *_state(job, verb, facts.successor)]
    if verb in RETRIES:
        checks += _retry_checks(job, verb, spec, steps)
    return Plan(
        job_id=str(job.pk),
        verb=verb,
        steps=steps,
        checks=tuple(checks),
        cost=_cost(facts, steps),
        digest=digest_of(job, verb, spec, steps),
    )


def _rights(job: Job, verb: Verb, actor: Actor) -> Iterator[Check]:
    right = missing_right(actor, verb.value, job.workspace_id, Governing(job))
    if right is None:
        yield Check("pass", "", f"{actor.label} may {verb.value} jobs of this kind.")
    else:
        yield Check("block", "not_allowed", f"{actor.label} lacks the right {right!r} here.")


def _state(job: Job, verb: Verb, successor: Job | None) -> Iterator[Check]:
    if verb in RETRIES:
        yield _retryable(job, successor)
    elif verb is Verb.CANCEL and job.final:
        yield Check("block", "not_cancellable", f"The job has ended: it is {job.state}.")
    elif verb is Verb.CANCEL and job.state == State.RUNNING:
        yield Check("warn", "", "It is running: it stops at its next step boundary, not at once.")
    elif verb is Verb.RESOLVE and successor is not None:
        sentence = f"It was retried already. Resolve its newest retry instead: job {successor.pk}."
        yield Check("block", "not_resolvable", sentence)
    elif verb is Verb.RESOLVE and (job.state != State.DEAD or job.resolved_at is not None):
        word = "resolved already" if job.resolved_at else job.state
        yield Check(
            "block", "not_resolvable", f"Only a dead letter is resolved; this job is {word}."
        )
    elif verb is Verb.RECONCILE and not job.final:
        yield Check("block", "not_reconcilable", f"The job is {job.state}: it asks by itself.")
    else:
        yield Check("pass", "", f"The job is {job.state}.")


def _retryable(job: Job, successor: Job | None) -> Check:
    if successor is not None:
        sentence = (
            f"It was retried already ({successor.mode} by {successor.actor}): job {successor.pk}."
        )
        return Check("block", "already_retried", sentence)
    if job.state not in RETRYABLE:
        sentence = f"Only a dead or cancelled job is retried; this one is {job.state}."
        return Check("block", "not_retryable", sentence)
    if job.resolved_at is not None:
        return Check("warn", "", f"It was resolved already: {Curtain.of(job).text(job.resolution)}")
    return Check("pass", "", f"It ended {job.state}, and nobody has retried it.")


def _retry_checks(
    job: Job, verb: Verb, spec: KindSpec | None, steps: tuple[PlannedStep, ...]
) -> Iterator[Check]:
    if spec is None:
        yield Check(
            "block", "unknown_kind", f"No code here knows the kind {job.kind}; deploy it first."
        )
        return
    if job.workspace.closed_at is not None:
        yield Check("block", "workspace_closed", "Its workspace is closed and takes no new work.")
    if spec.version != job.version and verb is Verb.RESUME:
        yield Check(
            "block",
            "version_changed",
            f"The kind is at version {spec.version}, the job at {job.version}: its steps may not "
            "fit any more. Rerun from start instead.",
        )
    blocked = [s.name for s in steps if s.word is Word.BLOCKED]
    if blocked:
        yield Check(
            "block",
            "reconcile_required",
            f"Step {', '.join(blocked)} may have happened. Look at the provider, then record what "
            f"you saw: manage.py job reconcile {job.pk} --step {blocked[0]} --outcome …",
        )
    for step in steps:
        if "until its output is recorded" in step.why:
            yield Check("warn", "", f"Step {step.name}: {step.why} (reconcile, with its output).")


def _cost(facts: Facts, steps: tuple[PlannedStep, ...]) -> tuple[dict[str, Any], ...]:
    """What the attempts of this job cost, where something of it will run again."""
    runs = any(s.word in (Word.RUNS, Word.RUNS_AGAIN, Word.ASKS_FIRST) for s in steps)
    return tuple(facts.costs) if runs else ()
