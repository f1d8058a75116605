"""What the database says, beside what the model says; and what may never be seen there."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from jobs.models import Attempt, Event, Job, Step
from jobs.models.step import OPEN
from jobs.recovery.job_verbs import ENGINE
from jobs.states import FINAL, allows
from tests.integration.kernel.interleavings.model import Checkpoint, Model, Record
from tests.integration.kernel.interleavings.outside import Provider
from tests.integration.kernel.interleavings.weave import BOOKED, BUDGETS, EFFECTS, Budget

DRIFT = 50.0  # what may pass on the real clock while the scene's stands still; under a minute
_WRITTEN_ONCE = (
    "state",
    "cause",
    "result",
    "finished_at",
    "attempt",
    "failures",
    "losses",
    "deferrals",
    "worker",
    "cancel_requested_at",
    "params",
    "key",
    "root_id",
    "epoch",
    "mode",
    "retry_of_id",
)
_COLUMNS = (
    "id",
    "kind",
    "run_at",
    "deadline_at",
    "lease_until",
    "kill_at",
    "resolved_at",
    *_WRITTEN_ONCE,
)


@dataclass
class Seen:
    """All rows at one moment."""

    now: datetime
    jobs: dict[uuid.UUID, dict[str, Any]]
    steps: dict[tuple[uuid.UUID, str], dict[str, Any]]
    attempts: dict[uuid.UUID, dict[int, str]]
    booked: Counter[str]

    @classmethod
    def of_this_moment(cls) -> Seen:
        attempts: dict[uuid.UUID, dict[int, str]] = {}
        for job_id, number, outcome in Attempt.objects.values_list("job_id", "number", "outcome"):
            attempts.setdefault(job_id, {})[number] = outcome
        booked = Event.objects.filter(type=BOOKED).values_list("subject", flat=True)
        return cls(
            now=_database_time(),
            jobs={row["id"]: row for row in Job.objects.values(*_COLUMNS)},
            steps={(row["job_id"], row["name"]): {**row} for row in Step.objects.values()},
            attempts=attempts,
            booked=Counter(booked),
        )


def _database_time() -> datetime:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT statement_timestamp()")
            moment: datetime = cursor.fetchone()[0]
            return moment
        cursor.execute("SELECT STRFTIME('%Y-%m-%dT%H:%M:%f+00:00', 'NOW')")
        return datetime.fromisoformat(cursor.fetchone()[0])


# --- against the model


def compare(seen: Seen, model: Model) -> None:
    """Every row is as the model has it. The engines of operations are not the model's."""
    ids = {pk for pk, row in seen.jobs.items() if row["kind"] != ENGINE}
    assert ids == {record.id for record in model.records}
    for record in model.records:
        said, meant = _said(seen, record), _meant(record)
        assert said == meant, f"{record}: {_difference(said, meant)}"
        _compare_times(seen, record, model)
        steps = {name: row for (job, name), row in seen.steps.items() if job == record.id}
        rows = {name: _step_said(row) for name, row in steps.items()}
        meant = {name: _step_meant(each, record) for name, each in record.checkpoints.items()}
        assert rows == meant, f"{record}: {_difference(rows, meant)}"


def _difference(said: dict[str, Any], meant: dict[str, Any]) -> str:
    names = sorted(name for name in {*said, *meant} if said.get(name, "-") != meant.get(name, "-"))
    told = [f"{name} is {said.get(name, '-')!r}, not {meant.get(name, '-')!r}" for name in names]
    return "; ".join(told)


def _said(seen: Seen, record: Record) -> dict[str, Any]:
    row = seen.jobs[record.id]
    same = ("state", "cause", "epoch", "mode", "attempt", "failures", "losses", "deferrals")
    return {
        **{name: row[name] for name in same},
        "worker": row["worker"],
        "cancel": row["cancel_requested_at"] is not None,
        "resolved": row["resolved_at"] is not None,
        "retry_of": row["retry_of_id"],
        "root": row["root_id"],
        "attempts": seen.attempts.get(record.id, {}),
    }


def _meant(record: Record) -> dict[str, Any]:
    same = ("state", "cause", "epoch", "mode", "attempt", "failures", "losses", "deferrals")
    return {
        **{name: getattr(record, name) for name in same},
        "worker": record.worker,
        "cancel": record.cancel,
        "resolved": record.resolved,
        "retry_of": record.parent.id if record.parent else None,
        "root": record.root.id,
        "attempts": {number: each.outcome for number, each in record.attempts.items()},
    }


def _compare_times(seen: Seen, record: Record, model: Model) -> None:
    row = seen.jobs[record.id]
    moments = {"deadline_at": record.deadline}
    if record.state == "queued":
        moments["run_at"] = record.run_at
    if record.state == "running":
        moments |= {"lease_until": record.lease_until, "kill_at": record.kill_at}
    for name, moment in moments.items():
        said, meant = (row[name] - seen.now).total_seconds(), moment - model.now
        assert abs(said - meant) < DRIFT, f"{record}: {name} in {said:.0f} s, not {meant:.0f} s"


def _step_said(row: dict[str, Any]) -> dict[str, Any]:
    same = ("effect", "state", "attempt", "output", "late_output", "observed", "observed_output")
    return {
        **{name: row[name] for name in same},
        "carried_from": row["carried_from"],
        "fault": row["output_error"] != "",
        "late": row["late_at"] is not None,
    }


def _step_meant(each: Checkpoint, record: Record) -> dict[str, Any]:
    same = ("effect", "state", "attempt", "output", "late_output", "observed", "observed_output")
    return {
        **{name: getattr(each, name) for name in same},
        "carried_from": None if each.sender is record else each.sender.id,
        "fault": each.fault,
        "late": each.late,
    }


# --- what holds whatever the model says


def check(before: Seen, after: Seen, world: Provider) -> None:
    """The guarantees, between two moments with one rule in between."""
    for pk, row in after.jobs.items():
        _check_job(before.jobs.get(pk), row)
        if row["kind"] in BUDGETS:
            _check_budget(row, BUDGETS[row["kind"]])
    for key, row in after.steps.items():
        _check_step(before.steps.get(key), row)
    _check_becoming_final(before, after)
    _check_effects(after, world)
    parents = Counter(row["retry_of_id"] for row in after.jobs.values() if row["retry_of_id"])
    assert max(parents.values(), default=0) <= 1, "a job has two successors"
    assert set(before.jobs) <= set(after.jobs), "a job is gone"


def _check_job(before: dict[str, Any] | None, row: dict[str, Any]) -> None:
    state, final = row["state"], row["state"] in FINAL
    assert (state == "running") == (row["lease_until"] is not None)
    assert final == (row["finished_at"] is not None)
    assert (state == "dead") == (row["cause"] != "")
    assert not (state == "queued" and row["cancel_requested_at"]), "cancelled, and still waits"
    if before is None:
        assert state == "queued"
    elif before["state"] in FINAL:
        changed = [name for name in _WRITTEN_ONCE if row[name] != before[name]]
        assert not changed, f"a final record changed: {changed}"
        assert before["resolved_at"] in (None, row["resolved_at"])
    elif before["state"] != state:
        assert allows(before["state"], state), f"{before['state']} became {state}"


def _check_budget(row: dict[str, Any], budget: Budget) -> None:
    spare = 1 if row["state"] in FINAL else 0
    assert row["failures"] <= budget.max_retries + spare, "more failures than its budget"
    assert row["losses"] <= budget.max_losses + spare, "more losses than its budget"


def _check_step(before: dict[str, Any] | None, row: dict[str, Any]) -> None:
    if before is None:
        return
    if before["state"] == "done":
        changed = [n for n in ("state", "output", "output_error") if before[n] != row[n]]
        assert not changed, f"a finished step changed: {changed}"
    for name in ("late_at", "observed_at"):
        assert before[name] in (None, row[name]), f"{name} was written twice"


def _check_becoming_final(before: Seen, after: Seen) -> None:
    """No job becomes final with an open intent, except as dead(uncertain)."""
    ended = [
        pk
        for pk, row in after.jobs.items()
        if row["state"] in FINAL and before.jobs.get(pk, {}).get("state") not in FINAL
    ]
    sure = [pk for pk in ended if after.jobs[pk]["cause"] != "uncertain"]
    assert not (ended and sure and Step.objects.filter(OPEN, job_id__in=sure).exists())


def _check_effects(after: Seen, world: Provider) -> None:
    """What is no plain code happens at most once an epoch, and has if its step is done."""
    for intent, count in world.effects.items():
        assert count <= 1 or EFFECTS[intent.step] == "repeatable", f"{intent}: {count} times"
    for subject, count in after.booked.items():
        assert count == 1, f"booked {count} times: {subject}"
    for (job, name), row in after.steps.items():
        if row["state"] != "done" or name not in EFFECTS:
            continue
        root, epoch = after.jobs[job]["root_id"], after.jobs[job]["epoch"]
        if name == "book":
            assert after.booked[f"{root}:{epoch}"] == 1
        elif EFFECTS[name] != "repeatable":
            happened = [
                i for i in world.effects if (i.root, i.epoch, i.step) == (root, epoch, name)
            ]
            assert happened, f"{name} counts as done, and never happened"
