"""What happened to a job, in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jobs.admin.marks import distance, length
from jobs.models import Attempt, Job
from jobs.states import Cause, State, WaitReason

_WAITS = {
    WaitReason.SCHEDULED: "It was scheduled",
    WaitReason.THROTTLED: "Its provider asked for a pause",
    WaitReason.LOCK: "It waits for a lock that another job holds",
    WaitReason.SHARE: "It waits for its workspace's turn",
    WaitReason.INTERRUPTED: "Its worker was told to stop",
    WaitReason.DEFERRED: "It asked to go on later",
}


def what_happened(
    job: Job,
    last: Attempt | None,
    declared: Sequence[str],
    open_steps: Sequence[str],
    now: datetime,
) -> str:
    """The sentence under the title of a job's page. ``last`` is its newest ended attempt."""
    if job.state == State.QUEUED:
        return _queued(job, last, now)
    if job.state == State.RUNNING:
        return _running(job, now)
    if job.state == State.SUCCEEDED:
        return f"It succeeded in attempt {job.attempt}."
    if job.state == State.CANCELLED:
        return f"It was cancelled {_after(job)}. No step of it is in doubt."
    return _dead(job, last, declared, open_steps)


def place(step: str, declared: Sequence[str]) -> str:
    """``at step 3 of 4 ('register')``."""
    base = step.split(":", 1)[0]
    if base in declared:
        return f"at step {declared.index(base) + 1} of {len(declared)} ({step!r})"
    return f"at step {step!r}" if step else "in code between its steps"


def _queued(job: Job, last: Attempt | None, now: datetime) -> str:
    if job.wait_reason == WaitReason.UNSTARTABLE:
        since = f" since {length(now - job.wait_since)}" if job.wait_since else ""
        return f"No running worker knows its kind{since}; after an hour it becomes a dead letter."
    if job.run_at <= now:
        return f"It waits for a worker, ready since {length(now - job.run_at)}."
    due = distance(job.run_at, now)
    if job.wait_reason == WaitReason.RETRY and last is not None:
        return f"Attempt {last.number} {_ended(last)}. It is tried again {due}."
    why = _WAITS.get(WaitReason(job.wait_reason), "") if job.wait_reason else ""
    return f"{why or 'It waits'}; it runs {due}."


def _running(job: Job, now: datetime) -> str:
    since = length(now - job.started_at) if job.started_at else "an unknown time"
    sentence = f"Attempt {job.attempt} is running since {since}."
    if job.lease_until is not None and job.lease_until < now:
        gone = length(now - job.lease_until)
        sentence += f" Its lease ran out {gone} ago: its worker may be gone."
    if job.cancel_requested_at is not None:
        sentence += " It was asked to stop and does so at its next step boundary."
    return sentence


def _dead(
    job: Job, last: Attempt | None, declared: Sequence[str], open_steps: Sequence[str]
) -> str:
    if job.cause == Cause.UNCERTAIN:
        return _uncertain(open_steps, last)
    if job.cause == Cause.UNSTARTABLE:
        return "It never started: no worker knew its kind, or the code refused its params."
    where = place(last.step, declared) if last else "before its first step"
    tries = _after(job)
    return {
        Cause.TERMINAL: f"It failed {where} {tries}. No later try mends that by itself.",
        Cause.EXHAUSTED: f"It failed {where} {tries}: its retries are used up.",
        Cause.DEADLINE: f"Its time was over {tries}: nothing more was started.",
        Cause.LOST: f"Its workers were lost too often, {tries}.",
    }[Cause(job.cause)]


def _uncertain(open_steps: Sequence[str], last: Attempt | None) -> str:
    if not open_steps:
        step = f" step {last.step!r}" if last and last.step else " a step"
        return f"It ended with{step} in doubt; what became of it has been recorded since."
    names = ", ".join(repr(name) for name in open_steps)
    several = len(open_steps) > 1
    return (
        f"Step{'s' if several else ''} {names} {'were' if several else 'was'} started and no "
        "outcome is recorded: nobody here knows whether it happened."
    )


def _ended(last: Attempt) -> str:
    return last.outcome.replace("_", " ")


def _after(job: Job) -> str:
    if job.attempt == 0:
        return "before it ran"
    return f"after {job.attempt} attempt{'s' if job.attempt > 1 else ''}"
