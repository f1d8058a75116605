"""A job as it may be shown: redacted by its kind's rule, JSON throughout."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from jobs.curtain import Curtain
from jobs.models import Attempt, Event, Job
from jobs.models import Step as StepRow
from jobs.recovery.plan import Plan


def shown(job: Job, steps_at_most: int | None = None) -> dict[str, Any]:
    """A job with its attempts and steps; moments in ISO 8601 UTC. Four queries."""
    most = None if steps_at_most is None else steps_at_most + 1
    rows = list(StepRow.objects.filter(job_id=job.pk).order_by("pk")[:most])
    steps = rows[:steps_at_most]
    curtain = Curtain.of(job, steps)
    attempts = Attempt.objects.filter(job_id=job.pk).order_by("number")
    successor = Job.objects.filter(retry_of_id=job.pk).values_list("pk", flat=True).first()
    return {
        **summary(job, job.workspace.slug),
        "traceparent": job.traceparent,
        "attempts": [_attempt(attempt, job, curtain) for attempt in attempts],
        "steps": [_step(step, curtain) for step in steps],
        "more_steps": len(rows) > len(steps),
        "successor": _text(successor),
        "params": curtain.value(job.params),
        "result": curtain.value(job.result),
        "resolution": curtain.text(job.resolution),
    }


def summary(job: Job, slug: str) -> dict[str, Any]:
    """A job as a line of a list: nothing that its author chose but kind, key and progress."""
    return {
        "id": str(job.pk),
        "kind": job.kind,
        "workspace": slug,
        "key": job.key,
        "state": job.state,
        "cause": job.cause,
        "wait_reason": job.wait_reason if job.state == "queued" else "",
        "run_at": _iso(job.run_at),
        "attempt": job.attempt,
        "progress": job.progress,
        "retry_of": _text(job.retry_of_id),
        "root_id": str(job.root_id),
        "epoch": job.epoch,
        "mode": job.mode,
        "actor": job.actor,
        "request_id": job.request_id,
        "created_at": _iso(job.created_at),
        "finished_at": _iso(job.finished_at),
        "cancel_requested_at": _iso(job.cancel_requested_at),
        "retried_at": _iso(job.retried_at),
        "resolved_at": _iso(job.resolved_at),
    }


def standing(job: Job) -> dict[str, Any]:
    """How far a job is, in few words."""
    return {
        "state": job.state,
        "cause": job.cause,
        "attempt": job.attempt,
        "progress": job.progress,
        "final": job.final,
    }


def happened(event: Event, curtain: Curtain) -> dict[str, Any]:
    """An event about a job."""
    return {
        "id": event.pk,
        "type": event.type,
        "created_at": _iso(event.created_at),
        "data": curtain.scrubbed(event.data),
    }


def planned(plan: Plan) -> dict[str, Any]:
    """A plan as it is shown to programs."""
    return {**asdict(plan), "allowed": plan.refusal is None}


def _attempt(row: Attempt, job: Job, curtain: Curtain) -> dict[str, Any]:
    """Every attempt of a job is its request's; a retry is a job of its own, with its own."""
    return {
        "number": row.number,
        "outcome": row.outcome,
        "classification": row.classification,
        "reason": curtain.text(row.reason),
        "step": row.step,
        "error_class": row.error_class,
        "message": curtain.text(row.message),
        "fingerprint": row.fingerprint,
        "delay": row.delay,
        "cost": row.cost,
        "started_at": _iso(row.started_at),
        "ended_at": _iso(row.ended_at),
        "worker": row.worker,
        "request_id": job.request_id,
    }


def _step(row: StepRow, curtain: Curtain) -> dict[str, Any]:
    return {
        "name": row.name,
        "effect": row.effect,
        "state": row.state,
        "attempt": row.attempt,
        "carried_from": _text(row.carried_from),
        "output": curtain.value(row.output),
        "output_error": curtain.text(row.output_error),
        "observed": row.observed,
    }


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _text(value: object | None) -> str | None:
    return str(value) if value is not None else None
