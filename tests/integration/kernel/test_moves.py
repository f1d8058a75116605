"""Each move writes what it says, onto its own job, and only onto a job that stands as it must."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import moves
from jobs.fence import AttemptRecord, Fence
from jobs.models import Attempt, Job, Step
from jobs.models.ids import uuid7
from jobs.states import AttemptOutcome, Cause, WaitReason
from tests.drills.kinds import noop
from tests.integration.kernel.acting import waiting
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

WORKER = "me/b/1/1/1"
LEASE = 60.0
RECORD = AttemptRecord(
    outcome=AttemptOutcome.FAILED,
    classification="retry",
    reason="http_502",
    step="s",
    error_class="Bad",
    message="it was bad",
    traceback="where it was bad",
    fingerprint="f00",
    cost='{"amount": 1}',
    provider_request_id="req-1",
)
STEP = {"name": "s", "effect": "once", "boundary": "provider"}

QUEUED: dict[str, Any] = {"run_at": Now(), "wake_at": Now()}
RUNNING: dict[str, Any] = {
    "state": "running",
    "attempt": 2,
    "worker": WORKER,
    "started_at": Now() - timedelta(minutes=1),
    "lease_until": Now() + timedelta(seconds=1),
    "kill_at": Now() + timedelta(minutes=14),
}
DEAD: dict[str, Any] = {"state": "dead", "cause": "terminal", "finished_at": Now()}
UNSTARTABLE: dict[str, Any] = {"wait_reason": "unstartable", "wait_since": Now()}


def standing(workspace: Workspace, key: str, values: dict[str, Any]) -> Job:
    """A job that stands so, with an open step ``s`` and another that nothing is about."""
    job = waiting(noop.s(), workspace, key)
    Job.objects.filter(pk=job.pk).update(**values)
    for name in ("s", "t"):
        began = {"state": "started", "attempt": 2, "intent_at": Now(), "opens_at": Now()}
        Step.objects.create(job=job, name=name, effect="once", **began)
    job.refresh_from_db()
    return job


def fence(job: Job) -> Fence:
    return Fence(job.pk, attempt=2, worker=WORKER, lease=LEASE)


def successor(job: Job) -> bool:
    words = {"version": 3, "epoch": 1, "mode": "restart", "shared": False, "actor": "user:1"}
    ids = {"id": job.pk, "new": uuid7(), "request_id": "r", "traceparent": ""}
    return moves.insert_successor({**words, **ids}, deadline=60.0)


def marked(mark: Callable[[Any], None], job: Job) -> bool:
    mark(job.pk)
    return True


Move = Callable[[Job], object]
MOVES: dict[str, tuple[dict[str, Any], Move]] = {
    "claim": (
        QUEUED,
        lambda job: moves.claim(job.pk, job.kind, worker=WORKER, lease=LEASE, time_limit=900),
    ),
    "renew": (RUNNING, lambda job: moves.renew(fence(job))),
    "progress": (RUNNING, lambda job: moves.progress(fence(job), "{}")),
    "begin_step": (RUNNING, lambda job: moves.begin_step(fence(job), remembers=0.0, **STEP)),
    "finish_step": (RUNNING, lambda job: moves.finish_step(fence(job), output="1", **STEP)),
    "deny_step": (RUNNING, lambda job: moves.deny_step(fence(job), name="s")),
    "succeed": (RUNNING, lambda job: moves.succeed(fence(job), result="1", record=RECORD)),
    "end": (RUNNING, lambda job: moves.end(fence(job), RECORD, cause=Cause.TERMINAL)),
    "retry_later": (RUNNING, lambda job: moves.retry_later(fence(job), RECORD, delay=1.0)),
    "defer": (RUNNING, lambda job: moves.defer(fence(job), delay=1.0, wait=WaitReason.LOCK)),
    "ask_cancel": (RUNNING, lambda job: moves.ask_cancel(job.pk)),
    "keep_late_output": (
        QUEUED,
        lambda job: moves.keep_late_output(fence(job), name="s", output="1"),
    ),
    "bury": (QUEUED, lambda job: moves.bury(job.pk, Cause.DEADLINE)),
    "cancel_queued": (QUEUED, lambda job: moves.cancel_queued(job.pk)),
    "mark_unstartable": (QUEUED, lambda job: marked(moves.mark_unstartable, job)),
    "mark_startable": (
        {**QUEUED, **UNSTARTABLE},
        lambda job: marked(moves.mark_startable, job),
    ),
    "resolve": (DEAD, lambda job: moves.resolve(job.pk, "by hand")),
    "observe": (
        DEAD,
        lambda job: moves.observe(
            job.pk, name="s", observed="happened", output="1", actor="user:1"
        ),
    ),
    "insert_successor": (DEAD, successor),
}


def rows(job: Job, *, without: str = "") -> list[dict[str, Any]]:
    """Everything that is recorded of a job: its row, attempts, steps and successors."""
    parts: list[Any] = [
        Job.objects.filter(pk=job.pk),
        Attempt.objects.filter(job_id=job.pk),
        Step.objects.filter(job_id=job.pk).exclude(name=without),
        Job.objects.filter(retry_of_id=job.pk),
    ]
    return [row for part in parts for row in part.order_by("pk").values()]


@pytest.mark.parametrize("name", MOVES)
def test_a_move_touches_its_own_job_and_step_alone(acme: Workspace, name: str) -> None:
    """Two jobs that differ in nothing but their ids, and two such steps in each."""
    values, move = MOVES[name]
    mine, another = standing(acme, "a", values), standing(acme, "b", values)
    before, mine_before = rows(another), rows(mine)
    other_step = Step.objects.filter(job=mine, name="t").values().get()
    assert move(mine)
    assert rows(another) == before
    assert rows(mine) != mine_before
    assert Step.objects.filter(job=mine, name="t").values().get() == other_step


STANDS: dict[str, dict[str, Any]] = {
    "queued": {**QUEUED, "attempt": 2, "worker": WORKER},
    "running": RUNNING,
    "dead": {**DEAD, "attempt": 2, "worker": WORKER},
    "cancelled": {"state": "cancelled", "finished_at": Now(), "attempt": 2, "worker": WORKER},
    "succeeded": {"state": "succeeded", "finished_at": Now(), "attempt": 2, "worker": WORKER},
}
EVIDENCE = {"observe", "keep_late_output"}  # about a step, whatever state its job is in
REFUSED = [
    (name, state)
    for name, (values, _) in MOVES.items()
    for state in STANDS
    if name not in EVIDENCE
    and state != values.get("state", "queued")
    and (name, state) != ("insert_successor", "cancelled")
]


@pytest.mark.parametrize(("name", "state"), REFUSED)
def test_a_move_changes_nothing_where_the_job_does_not_stand_so(
    acme: Workspace, name: str, state: str
) -> None:
    mark = {"wait_reason": "unstartable"} if name == "mark_startable" else {}
    job = standing(acme, "a", {**STANDS[state], **mark})
    before = rows(job)
    MOVES[name][1](job)
    assert rows(job) == before


# --- what is kept of an attempt ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "outcome", "delay"),
    [("succeed", "uncertain", None), ("end", "uncertain", None), ("retry_later", "failed", 1.0)],
)
def test_an_attempt_is_kept_with_all_its_evidence(
    acme: Workspace, name: str, outcome: str, delay: float | None
) -> None:
    job = standing(acme, "a", RUNNING)
    assert MOVES[name][1](job)
    kept: dict[str, Any] = {**Attempt.objects.filter(job=job).values().get()}
    assert kept.pop("ended_at") > kept["started_at"]
    del kept["id"]
    assert kept == {
        **{name: getattr(RECORD, name) for name in vars(RECORD)},
        "job_id": job.pk,
        "number": 2,
        "outcome": outcome,
        "delay": delay,
        "worker": WORKER,
        "started_at": job.started_at,
        "kill_at": job.kill_at,
        "cost": {"amount": 1},
    }


@pytest.mark.parametrize("name", ["succeed", "end", "retry_later"])
def test_an_attempt_that_is_kept_already_stays_as_it_is(acme: Workspace, name: str) -> None:
    """A number can be issued twice, after a crash that forgot an asynchronous claim."""
    job = standing(acme, "a", RUNNING)
    began = {"worker": "another", "started_at": Now(), "kill_at": Now(), "ended_at": Now()}
    Attempt.objects.create(job=job, number=2, outcome="lost", **began)
    before = Attempt.objects.values().get()
    assert MOVES[name][1](job)
    assert Attempt.objects.values().get() == before
