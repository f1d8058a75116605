"""The verbs that operations do to jobs: resume, restart, resolve and cancel.

An item is judged by the preflight that its own page asks, and by what a bulk deed never touches:
uncertain jobs and those of the highest risk need a person's eyes, and a dead letter that somebody
has resolved was closed on purpose.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from django.db.models import OuterRef, Q, QuerySet, Subquery

from jobs import registry
from jobs.curtain import Curtain, without_secrets
from jobs.errors import OperationInvalid, Refused
from jobs.models import Attempt, Job
from jobs.models.job import DEAD_LETTER
from jobs.recovery.cancel import cancel
from jobs.recovery.deed import done
from jobs.recovery.item_verbs import ItemVerb, Judgement, Mandate, register
from jobs.recovery.plan import Check, Plan
from jobs.recovery.preflight import RETRIES, Facts, Governing, facts_about, preflight
from jobs.recovery.resolve import resolve
from jobs.recovery.retry import retry
from jobs.states import FINAL, Cause, Effect, State, Verb, Word
from workspaces.actors import Actor
from workspaces.permissions import RISKY

ENGINE = "jobs.operation"
RETRIES_A_MINUTE = 60
CHUNK = 200

_NEWEST_FINGERPRINT = Subquery(
    Attempt.objects.filter(job=OuterRef("pk")).order_by("-number").values("fingerprint")[:1]
)
_STATES: dict[str, Q] = {
    State.DEAD: DEAD_LETTER,
    State.CANCELLED: Q(state=State.CANCELLED, retried_at=None),
    State.QUEUED: Q(state=State.QUEUED),
    State.RUNNING: Q(state=State.RUNNING),
}
_CRITERIA = ("state", "cause", "kind", "fingerprint")


def register_verbs() -> None:
    """Let operations do these. Called once, when the app is ready."""
    for verb in (*RETRIES, Verb.RESOLVE, Verb.CANCEL):
        register(
            ItemVerb(
                name=verb.value,
                select=_select,
                judge=partial(_judge, verb),
                act=partial(_act, verb),
                fates=_fates_of_jobs if verb in RETRIES else _all_well,
                rate_per_minute=RETRIES_A_MINUTE if verb in RETRIES else None,
                without_secrets=_without_secrets,
            )
        )


def _select(workspace_id: int, criteria: Mapping[str, str], limit: int) -> list[str]:
    """Jobs by state (required), cause, kind and the newest attempt's fingerprint; oldest first.

    ``state=dead`` means dead letters: neither resolved nor retried.
    """
    unknown = set(criteria) - set(_CRITERIA)
    if unknown or criteria.get("state") not in _STATES:
        raise OperationInvalid(
            "Nothing was selected: a filter of jobs has a state "
            f"({', '.join(_STATES)}) and may have cause, kind and fingerprint."
        )
    jobs = Job.objects.filter(_STATES[criteria["state"]], workspace_id=workspace_id)
    plain = {name: criteria[name] for name in ("cause", "kind") if name in criteria}
    jobs = jobs.filter(**plain)
    if "fingerprint" in criteria:
        jobs = jobs.annotate(newest=_NEWEST_FINGERPRINT).filter(newest=criteria["fingerprint"])
    return [str(pk) for pk in jobs.order_by("pk").values_list("pk", flat=True)[:limit]]


def _judge(verb: Verb, workspace_id: int, ids: Sequence[str], actor: Actor) -> list[Judgement]:
    """In the order of ``ids``; at most five queries for each 200."""
    judged: list[Judgement] = []
    for start in range(0, len(ids), CHUNK):
        chunk = ids[start : start + CHUNK]
        jobs = _jobs(workspace_id).in_bulk([pk for pk in map(_uuid, chunk) if pk is not None])
        facts = facts_about(list(jobs), verb)
        for object_id in chunk:
            job = jobs.get(_uuid(object_id) or uuid.UUID(int=0))
            judged.append(
                _judged(verb, job, facts[job.pk], actor) if job else _not_found(object_id)
            )
    return judged


def _jobs(workspace_id: int) -> QuerySet[Job]:
    return Job.objects.filter(workspace_id=workspace_id).select_related("workspace")


def _judged(verb: Verb, job: Job, facts: Facts, actor: Actor) -> Judgement:
    plan = preflight(job, verb, actor, facts)
    never = next(_never_in_bulk(verb, job, facts), None)
    refusal = never or plan.refusal
    if refusal is not None:
        return Judgement(str(job.pk), refusal.code, refusal.sentence)
    return Judgement(str(job.pk), outward=_outward(plan))


def _never_in_bulk(verb: Verb, job: Job, facts: Facts) -> Iterator[Check]:
    """What keeps a job out of every operation, whoever asks."""
    if job.kind == ENGINE:
        sentence = "It drives an operation, which is paused, continued or stopped as such."
        yield Check("block", "operation", sentence)
    if job.cause == Cause.UNCERTAIN or facts.open_names:
        sentence = "Nobody knows whether a step of it happened: look at this one by itself."
        yield Check("block", "uncertain", sentence)
    if registry.find(job.kind) is None:
        sentence = f"No code here knows the kind {job.kind}, nor how risky it is; deploy it first."
        yield Check("block", "unknown_kind", sentence)
    if Governing(job).risk >= RISKY:
        sentence = "It may destroy or replace something: look at this one by itself."
        yield Check("block", "risky", sentence)
    if verb in RETRIES and job.resolved_at is not None:
        yield Check("block", "resolved", f"It was resolved: {Curtain.of(job).text(job.resolution)}")


def _without_secrets(text: str, workspace_id: int, ids: Sequence[str]) -> str:
    """Two queries for each 200."""
    for start in range(0, len(ids), CHUNK):
        chunk = [pk for pk in map(_uuid, ids[start : start + CHUNK]) if pk is not None]
        jobs = Job.objects.filter(workspace_id=workspace_id, pk__in=chunk)
        text = without_secrets(text, list(jobs.only("kind", "params", "result")))
    return text


def _outward(plan: Plan) -> tuple[str, ...]:
    runs = (Word.RUNS, Word.RUNS_AGAIN)
    outside = (Effect.KEYED, Effect.ONCE)
    return tuple(s.effect for s in plan.steps if s.word in runs and s.effect in outside)


def _act(verb: Verb, object_id: str, mandate: Mandate) -> str:
    """Judge once more under the job's lock, then call the verb's own service."""

    def work() -> str:
        place = {"pk": object_id, "workspace_id": mandate.workspace_id}
        Job.objects.select_for_update().filter(**place).first()
        (judgement,) = _judge(verb, mandate.workspace_id, [object_id], mandate.actor)
        if judgement.code:
            raise Refused(judgement.code, f"Nothing was done: {judgement.sentence}")
        return str(_SERVICES[verb](object_id, mandate).pk)

    return done(work)


def _retry(mode: Verb, object_id: str, mandate: Mandate) -> Job:
    return retry(
        object_id,
        mode=mode.value,
        actor=mandate.actor,
        reason=mandate.reason,
        request_id=mandate.request_id,
    )


def _resolve(object_id: str, by: Mandate) -> Job:
    return resolve(object_id, actor=by.actor, reason=by.reason, request_id=by.request_id)


def _cancel(object_id: str, by: Mandate) -> Job:
    return cancel(object_id, actor=by.actor, reason=by.reason, request_id=by.request_id)


_SERVICES: dict[Verb, Callable[[str, Mandate], Job]] = {
    Verb.RESUME: partial(_retry, Verb.RESUME),
    Verb.RESTART: partial(_retry, Verb.RESTART),
    Verb.RESOLVE: _resolve,
    Verb.CANCEL: _cancel,
}


def _fates_of_jobs(job_ids: Sequence[str]) -> dict[str, bool]:
    ended = Job.objects.filter(pk__in=job_ids, state__in=FINAL)
    return {str(pk): state == State.SUCCEEDED for pk, state in ended.values_list("pk", "state")}


def _all_well(result_ids: Sequence[str]) -> dict[str, bool]:
    """Nothing follows these deeds: the deed is all there is to end well."""
    return dict.fromkeys(result_ids, True)


def _not_found(object_id: str) -> Judgement:
    return Judgement(object_id, "job_not_found", "There is no such job in this workspace.")


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
