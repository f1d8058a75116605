"""Each move writes what it says, onto its own job, and only onto a job that stands as it must."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import moves
from jobs.fence import Fence
from jobs.models import Attempt, Job, Step
from jobs.models.ids import uuid7
from jobs.states import Cause, WaitReason
from tests.integration.kernel.standing import (
    DEAD,
    LEASE,
    QUEUED,
    RECORD,
    RUNNING,
    STEP,
    UNSTARTABLE,
    WORKER,
    fence,
    standing,
    values_of,
)
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


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
def test_a_move_touches_its_own_job_and_step_alone(shop: Workspace, name: str) -> None:
    """Two jobs that differ in nothing but their ids, and two such steps in each."""
    values, move = MOVES[name]
    mine, another = standing(shop, "a", values), standing(shop, "b", values)
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
    shop: Workspace, name: str, state: str
) -> None:
    mark = {"wait_reason": "unstartable"} if name == "mark_startable" else {}
    job = standing(shop, "a", {**STANDS[state], **mark})
    before = rows(job)
    MOVES[name][1](job)
    assert rows(job) == before


@pytest.mark.parametrize("name", ["renew", "progress", "begin_step", "finish_step", "deny_step"])
def test_whatever_a_worker_writes_renews_its_lease(shop: Workspace, name: str) -> None:
    job = standing(shop, "a", RUNNING)
    began = values_of(job)["lease_until"]
    assert MOVES[name][1](job)
    assert values_of(job)["lease_until"] - began > timedelta(seconds=30)


def test_progress_is_what_was_told_last(shop: Workspace) -> None:
    job = standing(shop, "a", {**RUNNING, "progress": {"fraction": 0.1}})
    assert moves.progress(fence(job), '{"fraction": 0.5}')
    assert values_of(job)["progress"] == {"fraction": 0.5}


# --- steps -------------------------------------------------------------------------------------


def step_of(job: Job) -> dict[str, Any]:
    return {**Step.objects.filter(job=job, name="s").values().get()}


def fresh(workspace: Workspace) -> Job:
    """A running job with no step."""
    job = standing(workspace, "a", RUNNING)
    Step.objects.filter(job=job).delete()
    return job


@pytest.mark.parametrize(("remembers", "opens_in"), [(0.0, 0.0), (3600.0, 3600.0)])
def test_an_intent_says_by_whom_when_and_until_when_it_is_safe(
    shop: Workspace, remembers: float, opens_in: float
) -> None:
    job = fresh(shop)
    assert moves.begin_step(fence(job), remembers=remembers, **STEP)
    kept = step_of(job)
    assert kept["opens_at"] == kept["intent_at"] + timedelta(seconds=opens_in)
    assert kept["intent_at"] > job.started_at
    assert {name: kept[name] for name in ("effect", "boundary", "state", "attempt")} == {
        "effect": "once",
        "boundary": "provider",
        "state": "started",
        "attempt": 2,
    }
    assert (kept["done_at"], kept["carried_from"]) == (None, None)


def test_a_step_that_was_denied_begins_anew_and_has_not_ended(shop: Workspace) -> None:
    job = fresh(shop)
    assert moves.begin_step(fence(job), remembers=0.0, **STEP)
    assert moves.deny_step(fence(job), name="s")
    denied = step_of(job)
    Job.objects.filter(pk=job.pk).update(attempt=3)
    next_one = Fence(job.pk, attempt=3, worker=WORKER, lease=LEASE)
    assert moves.begin_step(next_one, remembers=60.0, **STEP)
    begun = step_of(job)
    assert (denied["state"], denied["done_at"] is not None) == ("not_done", True)
    assert (begun["state"], begun["attempt"], begun["done_at"]) == ("started", 3, None)
    assert begun["intent_at"] > denied["intent_at"]
    assert begun["opens_at"] == begun["intent_at"] + timedelta(seconds=60)


def test_what_was_carried_is_the_successors_own_once_it_begins_it_again(shop: Workspace) -> None:
    job = standing(shop, "a", RUNNING)
    Step.objects.filter(job=job).update(carried_from=uuid7(), attempt=1)
    assert moves.begin_step(fence(job), remembers=0.0, **STEP)
    assert (step_of(job)["carried_from"], step_of(job)["attempt"]) == (None, 2)


@pytest.mark.parametrize("begun", [False, True])
def test_a_finished_step_says_by_whom_when_and_what(shop: Workspace, *, begun: bool) -> None:
    job = standing(shop, "a", RUNNING) if begun else fresh(shop)
    Step.objects.filter(job=job).update(attempt=1, carried_from=uuid7())
    words = {**STEP, "output": '{"id": 7}', "output_error": "it was cut"}
    assert moves.finish_step(fence(job), **words)
    kept = step_of(job)
    assert (kept["state"], kept["attempt"], kept["carried_from"]) == ("done", 2, None)
    assert (kept["output"], kept["output_error"]) == ({"id": 7}, "it was cut")
    assert kept["done_at"] > job.started_at
    assert kept["effect"] == "once"
    if not begun:
        assert kept["boundary"] == "provider"


def test_an_output_that_could_be_stored_has_no_error(shop: Workspace) -> None:
    job = fresh(shop)
    assert moves.finish_step(fence(job), output='{"id": 7}', **STEP)
    assert step_of(job)["output_error"] == ""


@pytest.mark.parametrize("write", ["begin_step", "finish_step", "deny_step"])
def test_a_finished_step_is_never_written_again(shop: Workspace, write: str) -> None:
    job = standing(shop, "a", RUNNING)
    Step.objects.filter(job=job).update(state="done", attempt=1, output={"id": 7}, done_at=Now())
    before = step_of(job)
    assert MOVES[write][1](job), "the job is still mine"
    assert step_of(job) == before


# --- what is kept of an attempt ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "outcome", "delay"),
    [("succeed", "uncertain", None), ("end", "uncertain", None), ("retry_later", "failed", 1.0)],
)
def test_an_attempt_is_kept_with_all_its_evidence(
    shop: Workspace, name: str, outcome: str, delay: float | None
) -> None:
    job = standing(shop, "a", RUNNING)
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
def test_an_attempt_that_is_kept_already_stays_as_it_is(shop: Workspace, name: str) -> None:
    """A number can be issued twice, after a crash that forgot an asynchronous claim."""
    job = standing(shop, "a", RUNNING)
    began = {"worker": "another", "started_at": Now(), "kill_at": Now(), "ended_at": Now()}
    Attempt.objects.create(job=job, number=2, outcome="lost", **began)
    before = Attempt.objects.values().get()
    assert MOVES[name][1](job)
    assert Attempt.objects.values().get() == before
