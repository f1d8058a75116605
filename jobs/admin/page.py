"""Everything a job's page shows, looked up and put into words. The template only lays it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.safestring import SafeString

from jobs import registry
from jobs.admin.deeds import Deed, deeds_on
from jobs.admin.marks import badge, exact, length, state_badge
from jobs.admin.offers import Offer, offers
from jobs.admin.story import what_happened
from jobs.curtain import Curtain
from jobs.models import Attempt, Job
from jobs.models import Step as StepRow
from jobs.models.step import OPEN
from jobs.states import AttemptOutcome, Effect, Observation, StepState
from workspaces.actors import Actor

STEPS_SHOWN = 200
ATTEMPTS_SHOWN = 25
CHAIN_SHOWN = 25


@dataclass(frozen=True)
class StepLine:
    """One step, declared or recorded."""

    name: str
    effect: str
    mark: SafeString
    notes: tuple[str, ...]
    carried_from: Any
    output: str


@dataclass(frozen=True)
class AttemptLine:
    """One ended attempt."""

    row: Attempt
    mark: SafeString
    took: str
    worker: str
    message: str
    traceback: str


@dataclass(frozen=True)
class ChainLine:
    """One job of the chain, and what operators did to it."""

    job: Job
    mark: SafeString
    here: bool
    deeds: tuple[Deed, ...]


@dataclass(frozen=True)
class JobPage:
    """What the template of a job's page gets."""

    job: Job
    mark: SafeString
    story: str
    offers: tuple[Offer, ...]
    open_steps: tuple[StepRow, ...]
    runbook: str
    steps: tuple[StepLine, ...]
    steps_left: bool
    attempts: tuple[AttemptLine, ...]
    attempts_left: bool
    chain: tuple[ChainLine, ...]
    params: str
    result: str
    resolution: str
    worker: str


def job_page(job: Job, actor: Actor, now: datetime) -> JobPage:
    """Look everything up. The number of queries does not depend on how much there is."""
    spec = registry.find(job.kind)
    declared = tuple(step.name for step in spec.steps) if spec else ()
    rows = list(StepRow.objects.filter(job_id=job.pk).order_by("pk")[: STEPS_SHOWN + 1])
    open_steps = tuple(StepRow.objects.filter(OPEN, job_id=job.pk).order_by("pk")[:STEPS_SHOWN])
    attempts = list(Attempt.objects.filter(job_id=job.pk).order_by("-number")[: ATTEMPTS_SHOWN + 1])
    curtain = Curtain.of(job, rows)
    return JobPage(
        job=job,
        mark=state_badge(job),
        story=what_happened(
            job,
            attempts[0] if attempts else None,
            declared,
            [row.name for row in open_steps],
            now,
        ),
        offers=offers(job, actor),
        open_steps=open_steps,
        runbook=spec.runbook if spec else "",
        steps=_step_lines(
            rows[:STEPS_SHOWN], spec, {row.pk for row in open_steps}, attempts[:1], curtain
        ),
        steps_left=len(rows) > STEPS_SHOWN,
        attempts=tuple(_attempt_line(row, curtain) for row in attempts[:ATTEMPTS_SHOWN]),
        attempts_left=len(attempts) > ATTEMPTS_SHOWN,
        chain=_chain(job, actor, curtain),
        params=curtain.json(job.params),
        result=curtain.json(job.result),
        resolution=curtain.text(job.resolution),
        worker=process(job.worker),
    )


def process(worker: str) -> str:
    """``host, pid 123`` of a worker's full identity."""
    parts = worker.rsplit("/", 4)
    return f"{parts[0]}, pid {parts[3]}" if len(parts) == 5 else worker


def _step_lines(
    rows: Sequence[StepRow],
    spec: registry.KindSpec | None,
    open_ids: set[int],
    last: Sequence[Attempt],
    curtain: Curtain,
) -> tuple[StepLine, ...]:
    """Recorded and declared steps, in the declared order."""
    declared = spec.steps if spec else ()
    order = {step.name: index for index, step in enumerate(declared)}
    met = {row.name.split(":", 1)[0] for row in rows}
    lines = [(row.name, _recorded(row, open_ids, curtain)) for row in rows]
    lines += [(s.name, _unmet(s.name, s.effect, last)) for s in declared if s.name not in met]
    lines.sort(key=lambda line: order.get(line[0].split(":", 1)[0], len(order)))
    return tuple(line for _name, line in lines)


def _recorded(row: StepRow, open_ids: set[int], curtain: Curtain) -> StepLine:
    mark = badge("outcome unknown", "doubt") if row.pk in open_ids else badge(row.state)
    output = row.observed_output if row.observed == Observation.HAPPENED else row.output
    if output is None and row.late_at is not None:
        output = row.late_output
    notes = tuple(_notes(row, curtain))
    return StepLine(row.name, row.effect, mark, notes, row.carried_from, curtain.json(output))


def _notes(row: StepRow, curtain: Curtain) -> list[str]:
    notes = []
    if row.state == StepState.STARTED and row.intent_at:
        notes.append(f"started {exact(row.intent_at)} in attempt {row.attempt}")
    elif row.done_at:
        notes.append(f"{exact(row.done_at)}, attempt {row.attempt}")
    if row.output_error:
        notes.append(f"done, but its output was not stored: {curtain.text(row.output_error)}")
    if row.late_at:
        notes.append(f"its worker brought the output late, {exact(row.late_at)}")
    if row.observed and row.observed_at:
        seen = Observation(row.observed).replace("_", " ")
        notes.append(f"observed by {row.observed_by}, {exact(row.observed_at)}: it {seen}")
    return notes


def _unmet(name: str, effect: Effect, last: Sequence[Attempt]) -> StepLine:
    """A step that left no record: it was not reached, or it failed and may simply run again."""
    for attempt in last:
        if attempt.step == name and attempt.outcome != AttemptOutcome.SUCCEEDED:
            note = f"in attempt {attempt.number}"
            return StepLine(name, effect.value, badge(attempt.outcome), (note,), None, "")
    return StepLine(name, effect.value, badge("not reached"), (), None, "")


def _attempt_line(row: Attempt, curtain: Curtain) -> AttemptLine:
    return AttemptLine(
        row=row,
        mark=badge(row.outcome),
        took=length(row.ended_at - row.started_at),
        worker=process(row.worker),
        message=curtain.text(row.message),
        traceback=curtain.text(row.traceback),
    )


def _chain(job: Job, actor: Actor, curtain: Curtain) -> tuple[ChainLine, ...]:
    fields = ("id", "kind", "state", "cause", "mode", "actor", "created_at", "retry_of_id")
    newest = Job.objects.filter(root_id=job.root_id).only(*fields).order_by("-id")[:CHAIN_SHOWN]
    jobs = list(reversed(newest))
    deeds = deeds_on([each.pk for each in jobs], job.workspace_id, actor, curtain)
    return tuple(
        ChainLine(each, state_badge(each), each.pk == job.pk, tuple(deeds.get(str(each.pk), ())))
        for each in jobs
    )
