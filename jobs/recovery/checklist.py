"""The six steps of a recovery, filled in for one job. Pure: words about facts.

The sentences are Markdown; whatever somebody else wrote stands in code spans, where it can be
neither markup nor an instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.recovery.boundaries import BOUNDARIES, Reached
from jobs.recovery.evidence import Evidence, Facts
from jobs.recovery.plan import Plan, PlannedStep
from jobs.states import FINAL, Effect, Observation, StepState, Verb, Word
from workspaces.permissions import RISKY

TEXT_IN_LINE = 500
_NO_MARKUP = str.maketrans("`<>[]*_\n", "'()()   ")


@dataclass(frozen=True)
class Section:
    """One of the six: what was asked, what is known, and what to do next."""

    number: int
    title: str
    says: tuple[str, ...]
    next: tuple[str, ...] = ()


def checklist(evidence: Evidence) -> tuple[Section, ...]:
    """The six, in the order in which they are to be done."""
    found = (
        ("Capture the ids and the key", _ids, _no_command),
        ("Inspect what is recorded", _record, _logs),
        ("Determine whether a boundary was reached", _boundaries, _no_command),
        ("Reconcile what is observed, before anything is retried", _doubts, _reconciling),
        ("Resume under the original key only where that is safe", _retries, _retrying),
        ("For partial success keep the evidence and verify each target", _partial, _closing),
    )
    return tuple(
        Section(number, title, tuple(says(evidence)), tuple(then(evidence)))
        for number, (title, says, then) in enumerate(found, start=1)
    )


def code(text: object) -> str:
    """Foreign text as a code span, on one line."""
    plain = " ".join(str(text).split())[:TEXT_IN_LINE]
    runs = [len(run) for run in re.findall(r"`+", plain)]
    ticks = "`" * (max(runs, default=0) + 1)
    edge = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{ticks}{edge}{plain}{edge}{ticks}" if plain else "(nothing)"


def _ids(evidence: Evidence) -> Iterator[str]:
    job = evidence.job
    if job["request_id"]:
        yield f"Request {code(job['request_id'])}."
    else:
        yield "No request led to it: it was enqueued by code."
    if job["traceparent"]:
        yield f"Trace {code(job['traceparent'][3:35])}."
    yield f"Workspace {code(job['workspace'])}, job {code(job['id'])}."
    yield f"Kind {code(job['kind'])}, key {code(job['key'])}, asked for by {code(job['actor'])}."
    if len(evidence.chain) > 1 or job["epoch"]:
        restarts = f", restarted {job['epoch']} times" if job["epoch"] else ""
        yield f"Its chain began with job {code(job['root_id'])}{restarts}."
    for step in evidence.steps:
        if step["key"]:
            known = f"step {code(step['name'])} by the key {code(step['key'])}"
            yield f"The {step['boundary'] or 'other side'} knows {known}."
    for attempt in evidence.attempts:
        if attempt["provider_request_id"]:
            theirs = code(attempt["provider_request_id"])
            yield f"Attempt {attempt['number']} is request {theirs} at the provider."


def _record(evidence: Evidence) -> Iterator[str]:
    job = evidence.job
    cause = f" ({job['cause']})" if job["cause"] else ""
    yield f"The job is {job['state']}{cause}, in attempt {job['attempt']}."
    yield from map(_attempt_line, evidence.attempts)
    if evidence.trail is None:
        yield "The audit trail is not shown: it takes the right `audit.view`."
    elif not evidence.trail:
        yield "No operator has done anything to this chain."
    yield from map(_deed_line, evidence.trail or ())
    if evidence.cut:
        yield f"Too many to show them all: {', '.join(evidence.cut)}."


def _attempt_line(attempt: Facts) -> str:
    at = f" at step {code(attempt['step'])}" if attempt["step"] else ""
    outcome = attempt["outcome"].replace("_", " ")
    line = f"Attempt {attempt['number']}, {attempt['ended_at']}: {outcome}{at}"
    if attempt["error_class"]:
        line += f", {code(attempt['error_class'])}: {code(attempt['message'])}"
    return f"{line}. Decided: {code(attempt['reason'])}." if attempt["reason"] else f"{line}."


def _deed_line(deed: Facts) -> str:
    result = "" if deed["result"] == "done" else f", refused ({code(deed['result'])})"
    who = f"{code(deed['actor_label'])} ({code(deed['actor'])})"
    return f"{deed['at']}: {who} {code(deed['action'])}{result}, since {code(deed['reason'])}."


def _boundaries(evidence: Evidence) -> Iterator[str]:
    words = {
        Reached.YES: "was reached",
        Reached.MAYBE: "may have been reached",
        Reached.NO: "was not reached",
    }
    for name in BOUNDARIES:
        yield f"The {name} {words[Reached(evidence.boundaries[name])]}."
    for crossing in evidence.crossings:
        place = f"{crossing.effect}, {crossing.boundary or 'somewhere outside'}"
        yield f"Step {code(crossing.step)} ({place}): {crossing.reached.value}, {crossing.why}."
    silent = [s["name"] for s in evidence.steps if s["effect"] == Effect.REPEATABLE]
    if silent:
        names = ", ".join(map(code, silent))
        yield f"These are repeatable and name no boundary; they may have called anybody: {names}."


def _doubts(evidence: Evidence) -> Iterator[str]:
    words = {step.name: step.word for step in evidence.plans[Verb.RESUME].steps}
    doubts = [step for step in evidence.steps if step["open"]]
    for step in doubts:
        began = f"was begun {step['started_at']} in attempt {step['attempt']}"
        yield f"Step {code(step['name'])} {began}, and no outcome is recorded."
        if words.get(step["name"]) == Word.ASKS_FIRST:
            yield f"A resume asks the {step['boundary']} about it before anything is sent."
        else:
            yield f"Nobody can ask for it: look at the {step['boundary'] or 'other side'} yourself."
    for step in evidence.steps:
        if step["observed"]:
            outcome = Observation(step["observed"]).replace("_", " ")
            who = f"{code(step['observed_by'])}, {step['observed_at']}"
            yield f"Step {code(step['name'])} was observed by {who}: it {outcome}."
    if not doubts:
        yield "No step is in doubt."


def _retries(evidence: Evidence) -> Iterator[str]:
    if evidence.job["state"] not in FINAL:
        yield "The job has not ended: it is retried by itself while its budgets last."
    resume, restart = evidence.plans[Verb.RESUME], evidence.plans[Verb.RESTART]
    yield f"Resume, under the same keys as before: {_verdict(resume)}"
    yield from map(_step_line, resume.steps)
    yield f"Restart, a new intent under new keys: {_verdict(restart)}"
    if evidence.job["risk"] >= RISKY:
        yield "Its risk is 3: read the record and the audit trail before a retry; it takes a lead."


def _verdict(plan: Plan) -> str:
    if plan.refusal is None:
        return "it may be done."
    return f"refused ({plan.refusal.code}). {code(plan.refusal.sentence)}"


def _step_line(step: PlannedStep) -> str:
    why = step.why.translate(_NO_MARKUP)  # it may name what was wrong with an output
    return f"Step {code(step.name)} {step.word.value}: {why}."


def _partial(evidence: Evidence) -> Iterator[str]:
    done = [step for step in evidence.steps if step["state"] == StepState.DONE]
    if not done:
        yield "No step is finished."
    for step in done:
        kept = f", kept from job {code(step['carried_from'])}" if step["carried_from"] else ""
        yield f"Step {code(step['name'])} ({step['effect']}) finished {step['done_at']}{kept}."
    stands = [c for c in evidence.crossings if c.reached is Reached.YES]
    if stands:
        names = ", ".join(f"{code(c.step)} at the {c.boundary or 'other side'}" for c in stands)
        yield f"This stands outside and is not undone by anything here; verify it: {names}."
    if evidence.job["resolution"]:
        yield f"It was resolved {evidence.job['resolved_at']}: {code(evidence.job['resolution'])}."


def _no_command(_evidence: Evidence) -> Iterator[str]:
    yield from ()


def _logs(evidence: Evidence) -> Iterator[str]:
    yield f"worker logs: lines with job_id={evidence.job['id']}"


def _reconciling(evidence: Evidence) -> Iterator[str]:
    job = evidence.job
    if job["state"] not in FINAL or not evidence.is_newest:
        return
    for step in evidence.steps:
        if step["open"]:
            yield (
                f"manage.py job reconcile {job['id']} --step {step['name']} "
                "--outcome happened|did_not_happen --reason TEXT"
            )
            yield f"POST {_address(job)}reconcile/"


def _retrying(evidence: Evidence) -> Iterator[str]:
    for mode, plan in evidence.plans.items():
        if plan.refusal is None:
            restart = " --restart" if mode == Verb.RESTART else ""
            yield f"manage.py job retry {evidence.job['id']}{restart} --reason TEXT"
            yield f"POST {_address(evidence.job)}retry/ with mode {mode} and digest {plan.digest}"


def _closing(evidence: Evidence) -> Iterator[str]:
    if evidence.job["runbook"]:
        yield f"runbook: {evidence.job['runbook']}"
    if not evidence.is_newest:
        yield f"its newest retry: manage.py job evidence {evidence.chain[-1]['id']}"
    elif evidence.job["state"] == "dead" and not evidence.job["resolved_at"]:
        yield f"manage.py job resolve {evidence.job['id']} --reason TEXT"


def _address(job: Facts) -> str:
    return f"/api/v1/workspaces/{job['workspace']}/jobs/{job['id']}/"
