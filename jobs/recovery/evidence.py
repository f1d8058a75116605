"""What is known about a job that came to grief, for whoever has to deal with it: redacted.

Looked up in a number of queries that does not depend on how much there is, and cut where there is
too much; `checklist` says it in words. No tracebacks: they are in the console and in the logs.
*Hole:* the worker's log lines are not here; they are found by the ids that are.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from jobs import registry
from jobs.curtain import VALUE_SHOWN, Curtain
from jobs.effects import step_key
from jobs.models import Attempt, Job
from jobs.models import Step as StepRow
from jobs.models.step import OPEN
from jobs.recovery.boundaries import Crossing, crossings, reached
from jobs.recovery.plan import Plan
from jobs.recovery.preflight import RETRIES, Governing, preflight
from jobs.states import Effect
from workspaces.actors import Actor, as_actor
from workspaces.models import AuditEvent
from workspaces.permissions import allowed

if TYPE_CHECKING:
    from django.contrib.auth.models import User

FORMAT = "firedoor.evidence/1"
STEPS_SHOWN = 200
ATTEMPTS_SHOWN = 25
CHAIN_SHOWN = 25
TRAIL_SHOWN = 50

Facts = dict[str, Any]


@dataclass(frozen=True)
class Evidence:
    """The facts, each as it may be shown. `trail` is None for who may not read the audit trail."""

    made_at: str
    job: Facts
    chain: tuple[Facts, ...]
    attempts: tuple[Facts, ...]
    steps: tuple[Facts, ...]
    trail: tuple[Facts, ...] | None
    crossings: tuple[Crossing, ...]
    plans: dict[str, Plan]
    cut: tuple[str, ...]

    @property
    def is_newest(self) -> bool:
        """Whether nobody has retried the job: of a chain only its newest is resolved or retried."""
        return bool(self.chain[-1]["id"] == self.job["id"])

    @property
    def boundaries(self) -> dict[str, str]:
        """How far the job came, for each boundary."""
        return {name: answer.value for name, answer in reached(self.crossings).items()}


def gathered(job: Job, actor: Actor | User) -> Evidence:
    """Everything that `actor` may know of the job now."""
    reader = as_actor(actor)
    spec = registry.find(job.kind)
    rows = list(StepRow.objects.filter(job_id=job.pk).order_by("pk")[: STEPS_SHOWN + 1])
    attempts = list(Attempt.objects.filter(job_id=job.pk).order_by("-number")[: ATTEMPTS_SHOWN + 1])
    chain = list(Job.objects.filter(root_id=job.root_id).order_by("-id")[: CHAIN_SHOWN + 1])
    opened = StepRow.objects.filter(OPEN, job_id=job.pk).values_list("name", flat=True)
    is_open = frozenset(opened[: STEPS_SHOWN + 1])
    trail = _trail(chain[:CHAIN_SHOWN], job.workspace_id, reader)
    curtain = Curtain.of(job, rows)
    found: dict[str, Sized] = {
        "steps": rows,
        "attempts": attempts,
        "chain": chain,
        "trail": trail or [],
    }
    return Evidence(
        made_at=timezone.now().isoformat(),
        job=_job(job, curtain),
        chain=tuple(_link(each, curtain) for each in reversed(chain[:CHAIN_SHOWN])),
        attempts=tuple(_attempt(row, job, curtain) for row in reversed(attempts[:ATTEMPTS_SHOWN])),
        steps=tuple(_step(row, job, is_open, curtain) for row in rows[:STEPS_SHOWN]),
        trail=None
        if trail is None
        else tuple(_deed(event, curtain) for event in reversed(trail[:TRAIL_SHOWN])),
        crossings=crossings(spec.steps if spec else (), rows[:STEPS_SHOWN], is_open),
        plans={verb.value: preflight(job, verb, reader) for verb in RETRIES},
        cut=tuple(name for name, most in _MOST.items() if len(found[name]) > most),
    )


_MOST = {
    "steps": STEPS_SHOWN,
    "attempts": ATTEMPTS_SHOWN,
    "chain": CHAIN_SHOWN,
    "trail": TRAIL_SHOWN,
}


def facts_of(evidence: Evidence) -> Facts:
    """The facts as JSON."""
    return {
        "format": FORMAT,
        "made_at": evidence.made_at,
        "job": evidence.job,
        "chain": list(evidence.chain),
        "attempts": list(evidence.attempts),
        "steps": list(evidence.steps),
        "trail": None if evidence.trail is None else list(evidence.trail),
        "boundaries": evidence.boundaries,
        "crossings": [asdict(crossing) for crossing in evidence.crossings],
        "plans": {
            mode: {**asdict(plan), "allowed": plan.refusal is None}
            for mode, plan in evidence.plans.items()
        },
        "cut": list(evidence.cut),
    }


def _trail(chain: Sequence[Job], workspace_id: int, reader: Actor) -> list[AuditEvent] | None:
    if not allowed(reader, "audit.view", workspace_id):
        return None
    ids = [str(job.pk) for job in chain]
    events = AuditEvent.objects.filter(
        workspace_id=workspace_id, object_type="job", object_id__in=ids
    )
    return list(events.order_by("-pk")[: TRAIL_SHOWN + 1])


def _job(job: Job, curtain: Curtain) -> Facts:
    spec = registry.find(job.kind)
    return {
        "id": str(job.pk),
        "workspace": job.workspace.slug,
        "kind": job.kind,
        "version": job.version,
        "key": job.key,
        "state": job.state,
        "cause": job.cause,
        "request_id": job.request_id,
        "traceparent": job.traceparent,
        "root_id": str(job.root_id),
        "retry_of": str(job.retry_of_id) if job.retry_of_id else None,
        "epoch": job.epoch,
        "actor": job.actor,
        "attempt": job.attempt,
        "failures": job.failures,
        "losses": job.losses,
        "created_at": _iso(job.created_at),
        "finished_at": _iso(job.finished_at),
        "resolved_at": _iso(job.resolved_at),
        "resolution": curtain.text(job.resolution),
        "params": _value(job.params, curtain),
        "result": _value(job.result, curtain),
        "risk": Governing(job).risk,
        "runbook": spec.runbook if spec else "",
    }


def _link(job: Job, curtain: Curtain) -> Facts:
    return {
        "id": str(job.pk),
        "state": job.state,
        "cause": job.cause,
        "mode": job.mode,
        "actor": job.actor,
        "created_at": _iso(job.created_at),
        "finished_at": _iso(job.finished_at),
        "resolved_at": _iso(job.resolved_at),
        "resolution": curtain.text(job.resolution),
    }


def _attempt(row: Attempt, job: Job, curtain: Curtain) -> Facts:
    return {
        "number": row.number,
        "outcome": row.outcome,
        "step": row.step,
        "reason": curtain.text(row.reason),
        "error_class": row.error_class,
        "message": curtain.text(row.message),
        "fingerprint": row.fingerprint,
        "provider_request_id": row.provider_request_id,
        "cost": row.cost,
        "worker": row.worker,
        "request_id": job.request_id,
        "started_at": _iso(row.started_at),
        "ended_at": _iso(row.ended_at),
    }


def _step(row: StepRow, job: Job, is_open: frozenset[str], curtain: Curtain) -> Facts:
    keyed = row.effect == Effect.KEYED
    return {
        "name": row.name,
        "effect": row.effect,
        "boundary": row.boundary,
        "state": row.state,
        "open": row.name in is_open,
        "attempt": row.attempt,
        "carried_from": str(row.carried_from) if row.carried_from else None,
        "key": step_key(job.root_id, job.epoch, row.name) if keyed else "",
        "started_at": _iso(row.intent_at),
        "done_at": _iso(row.done_at),
        "output": _value(row.output, curtain),
        "output_error": curtain.text(row.output_error),
        "late_at": _iso(row.late_at),
        "late_output": _value(row.late_output, curtain),
        "observed": row.observed,
        "observed_by": row.observed_by,
        "observed_at": _iso(row.observed_at),
        "observed_output": _value(row.observed_output, curtain),
    }


def _deed(event: AuditEvent, curtain: Curtain) -> Facts:
    return {
        "at": _iso(event.created_at),
        "actor": event.actor,
        "actor_label": event.actor_label,
        "action": event.action,
        "job_id": event.object_id,
        "reason": curtain.text(event.reason),
        "request_id": event.request_id,
        "result": event.result,
    }


def _value(value: object, curtain: Curtain) -> object:
    """A stored value as it may be shown; a long one as the beginning of its text."""
    text = curtain.json(value)
    return text if len(text) > VALUE_SHOWN else curtain.value(value)


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
