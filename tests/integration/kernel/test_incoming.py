"""What is stored of a new job: the same through every door, and nothing lost on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from jobs import moves, registry
from jobs.enqueue import enqueue, enqueue_many
from jobs.kinds import Intended
from jobs.models import Job, Step
from jobs.models.ids import uuid7
from jobs.recovery.retry import retry
from jobs.statements import send
from tests.drills.kinds import by_account, noop, shared, throttled
from tests.integration.kernel.acting import about
from tests.integration.meanwhile import meanwhile
from workspaces.actors import SYSTEM, Actor
from workspaces.closing import close
from workspaces.errors import WorkspaceClosed
from workspaces.models import Workspace
from workspaces.sql import Row

pytestmark = pytest.mark.django_db(transaction=True)

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
WORDS: dict[str, Any] = {"request_id": "r-1", "traceparent": TRACE}
FAR = datetime(2099, 1, 1, tzinfo=UTC)
MOMENTS = ("run_at", "wake_at", "deadline_at", "created_at")


@pytest.fixture(autouse=True)
def _globex(transactional_db: None) -> None:
    """There is another open workspace, as there always is."""
    Workspace.objects.create(slug="globex", name="Globex")


@pytest.fixture
def _nobody_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wake runs or publishes anything: the rows stay as they were inserted."""
    monkeypatch.setattr("jobs.publish.publish", lambda _wakes: True)


def row(job: Job) -> dict[str, Any]:
    """A job as it was inserted, but for what is its own; waits are from its creation."""
    values: dict[str, Any] = {**Job.objects.filter(pk=job.pk).values().get()}
    assert values.pop("root_id") == values.pop("id") == job.pk
    del values["key"]
    for name in MOMENTS:
        if values[name] is not None:
            values[name] = (values[name] - job.created_at).total_seconds()
    return values


INTENTS: dict[str, Callable[[], Intended]] = {
    "plain": noop.s,
    "behind the platform's gate": lambda: throttled.s(ledger="x"),
    "behind its account's gate": lambda: by_account.s(ledger="x", account="a"),
    "with a share": lambda: shared.s(ledger="x"),
}


@pytest.mark.sqlite
@pytest.mark.usefixtures("_nobody_works")
@pytest.mark.parametrize("late", [True, False], ids=["later", "now"])
@pytest.mark.parametrize("name", INTENTS)
def test_what_is_answered_is_the_row(acme: Workspace, name: str, late: bool) -> None:
    """Most of it is known and not read back; it must be what a reader would find."""
    intent = INTENTS[name]()
    job = enqueue(
        intent.spec,
        workspace=acme,
        key="a",
        params=intent.params,
        eta=FAR if late else None,
        actor=Actor(id="user:7", label="Ola"),
        **WORDS,
    )
    assert job.created
    assert not job.get_deferred_fields()
    stored = Job.objects.filter(pk=job.pk).values().get()
    assert {name: getattr(job, name) for name in stored} == stored
    assert (job._state.adding, job._state.db) == (False, "default")


@pytest.mark.sqlite
@pytest.mark.usefixtures("_nobody_works")
@pytest.mark.parametrize("name", INTENTS)
@pytest.mark.parametrize("deadline", [None, timedelta(hours=2)])
def test_one_and_many_are_stored_alike(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch, name: str, deadline: timedelta | None
) -> None:
    intent = INTENTS[name]()
    spec = intent.spec
    monkeypatch.setattr(spec, "version", 7)
    monkeypatch.setattr(spec, "deadline", deadline)
    somebody = Actor("user:7", "Ana")
    one = enqueue(spec, workspace=acme, key="a", params=intent.params, actor=somebody, **WORDS)
    (many,) = enqueue_many([(intent, "b")], workspace=acme, actor=somebody, **WORDS)
    kept, kept_of_many = row(one), row(many)
    for moment in MOMENTS:  # two statements, two moments
        first, second = kept.pop(moment), kept_of_many.pop(moment)
        assert (first is None) == (second is None)
        assert about(first or 0, timedelta(seconds=second or 0))
    assert kept == kept_of_many
    assert (kept["version"], kept["actor"], kept["queue"]) == (7, "user:7", spec.queue)
    assert {word: kept[word] for word in WORDS} == WORDS


@pytest.mark.sqlite
@pytest.mark.usefixtures("_nobody_works")
def test_a_new_job_is_due_now_and_woken_again_in_half_a_minute(acme: Workspace) -> None:
    for job in (
        noop.s().enqueue(workspace=acme, key="a"),
        enqueue_many([(noop.s(), "b")], workspace=acme)[0],
    ):
        assert about(0, job.run_at - job.created_at)
        assert about(30, job.wake_at - job.created_at)
        assert (job.state, job.wait_reason, job.wait_since) == ("queued", "", None)


@pytest.mark.sqlite
@pytest.mark.usefixtures("_nobody_works")
def test_a_kind_with_a_share_is_due_for_the_upkeep_pass_at_once(acme: Workspace) -> None:
    """Nothing else publishes it, so it waits for no first wake."""
    job = shared.s(ledger="x").enqueue(workspace=acme, key="a")
    (many,) = enqueue_many([(shared.s(ledger="x"), "b")], workspace=acme)
    assert about(0, job.wake_at - job.created_at)
    assert about(0, many.wake_at - many.created_at)


@pytest.mark.sqlite
def test_a_delayed_job_says_that_it_is_scheduled_and_since_when(acme: Workspace) -> None:
    job = noop.s().enqueue(workspace=acme, key="a", eta=FAR)
    assert (job.run_at, job.wake_at, job.wait_reason) == (FAR, FAR, "scheduled")
    assert job.wait_since is not None
    assert about(0, job.wait_since - job.created_at)


@pytest.mark.sqlite
@pytest.mark.usefixtures("_nobody_works")
@pytest.mark.parametrize(("delay", "begins"), [(3600.0, 3600.0), (-3600.0, 0.0)])
def test_a_deadline_counts_from_when_the_job_may_first_run(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch, delay: float, begins: float
) -> None:
    """What is delayed has all its time left then; a moment in the past takes none away."""
    intent = noop.s()
    monkeypatch.setattr(intent.spec, "deadline", timedelta(hours=2))
    eta = datetime.now(UTC) + timedelta(seconds=delay)
    job = intent.enqueue(workspace=acme, key="a", eta=eta)
    assert job.deadline_at is not None
    assert about(begins + 7200, job.deadline_at - job.created_at)


def test_many_jobs_come_by_one_statement(acme: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def counted(sql: str, params: Mapping[str, Any]) -> list[Row]:
        sent.append(sql)
        return send(sql, params)

    monkeypatch.setattr("jobs.moves.incoming.send", counted)
    enqueue_many([(noop.s(), key) for key in "abc"], workspace=acme)
    assert len(sent) == 1


# --- successors ----------------------------------------------------------------------------------


def dead(intent: Intended, workspace: Workspace, **values: Any) -> Job:
    job = intent.enqueue(workspace=workspace, key="a", countdown=3600, actor=Actor("user:1", "B"))
    told = {"state": "dead", "cause": "terminal", "finished_at": Now(), **values}
    Job.objects.filter(pk=job.pk).update(**told)
    job.refresh_from_db()
    return job


@pytest.mark.sqlite
@pytest.mark.usefixtures("_nobody_works")
@pytest.mark.parametrize("name", INTENTS)
@pytest.mark.parametrize(("mode", "epoch"), [("resume", 0), ("restart", 1)])
def test_a_successor_is_the_same_intent_with_everything_it_needs(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch, name: str, mode: str, epoch: int
) -> None:
    intent = INTENTS[name]()
    job = dead(intent, acme, traceparent=TRACE, queue="reports", failures=3, losses=2, attempt=5)
    monkeypatch.setattr(intent.spec, "deadline", timedelta(hours=2))
    made = retry(job.pk, mode=mode, actor=SYSTEM, reason="mended", request_id="r-2")
    made.refresh_from_db()
    same = ("workspace_id", "kind", "key", "params", "params_digest", "queue", "gate", "root_id")
    assert {f: getattr(made, f) for f in same} == {f: getattr(job, f) for f in same}
    assert (made.mode, made.epoch, made.retry_of_id) == (mode, epoch, job.pk)
    assert (made.actor, made.request_id, made.traceparent) == ("system", "r-2", TRACE)
    assert (made.state, made.failures, made.losses, made.attempt) == ("queued", 0, 0, 0)
    assert made.deadline_at is not None
    assert about(7200, made.deadline_at - made.created_at)
    assert about(0, made.run_at - made.created_at)
    woken = 0 if intent.spec.per_workspace else 30
    assert about(woken, made.wake_at - made.created_at)


@pytest.mark.sqlite
@pytest.mark.usefixtures("_nobody_works")
def test_a_kind_without_a_deadline_gives_a_successor_none(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.named(noop.name), "deadline", None)
    made = retry(dead(noop.s(), acme).pk, mode="resume", actor=SYSTEM, reason="mended")
    made.refresh_from_db()
    assert made.deadline_at is None


@pytest.mark.sqlite
@pytest.mark.usefixtures("_nobody_works")
def test_who_was_retried_says_since_when(acme: Workspace) -> None:
    """By that the lists tell dead letters from those that somebody retried."""
    job = dead(noop.s(), acme)
    retried = Job.objects.filter(retried_at__isnull=False)
    assert not retried.exists()
    retry(job.pk, mode="resume", actor=SYSTEM, reason="mended")
    assert retried.get() == job


@pytest.mark.sqlite
@pytest.mark.usefixtures("_nobody_works")
@pytest.mark.parametrize("door", ["one", "many"])
def test_a_key_that_is_taken_makes_no_second_job(acme: Workspace, door: str) -> None:
    first = noop.s().enqueue(workspace=acme, key="a")
    if door == "one":
        again = noop.s().enqueue(workspace=acme, key="a")
    else:
        (again,) = enqueue_many([(noop.s(), "a")], workspace=acme)
    assert (again.pk, again.created, Job.objects.count()) == (first.pk, False, 1)


@pytest.mark.sqlite
def test_what_was_cancelled_has_a_successor_like_what_died(acme: Workspace) -> None:
    job = dead(noop.s(), acme, state="cancelled", cause="")
    made = retry(job.pk, mode="resume", actor=SYSTEM, reason="cancelled by mistake")
    assert made.retry_of_id == job.pk


@pytest.mark.sqlite
def test_a_successor_has_the_version_of_the_code_that_makes_it(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = dead(noop.s(), acme)
    monkeypatch.setattr(registry.named(noop.name), "version", 9)
    made = retry(job.pk, mode="restart", actor=SYSTEM, reason="mended")
    made.refresh_from_db()
    assert made.version == 9


@pytest.mark.sqlite
@pytest.mark.parametrize("column", ["output", "late_output", "observed_output", None])
def test_a_carried_step_keeps_its_evidence_and_says_where_it_is_from(
    acme: Workspace, column: str | None
) -> None:
    job, heir = dead(noop.s(), acme), noop.s().enqueue(workspace=acme, key="b", countdown=60)
    state = "done" if column == "output" else "started"
    moments = {
        "done_at": Now() - timedelta(hours=3) if column == "output" else None,
        "late_at": None if column == "observed_output" else Now() - timedelta(hours=2),
        "observed_at": Now() - timedelta(hours=1),
    }
    old = Step.objects.create(
        job=job, name="s", effect="once", boundary="provider", state=state, attempt=4,
        intent_at=Now(), opens_at=Now(), output={"from": "output"}, output_error="odd",
        late_output={"from": "late_output"}, observed_output={"from": "observed_output"}, **moments,
    )  # fmt: skip
    old.refresh_from_db()
    for whose, name in ((job, "other"), (noop.s().enqueue(workspace=acme, key="c", eta=FAR), "s")):
        Step.objects.create(job=whose, name=name, effect="once", state="started", attempt=1)
    moves.carry_step(job.pk, heir.pk, "s", column=column)
    new = Step.objects.get(job=heir)
    kept = "name effect boundary attempt intent_at opens_at late_output late_at".split()
    assert {f: getattr(new, f) for f in kept} == {f: getattr(old, f) for f in kept}
    assert (new.state, new.carried_from) == ("done" if column else "started", job.pk)
    assert new.output == ({"from": column} if column else None)
    assert new.output_error == ("odd" if column == "output" else "")
    ended = {"output": old.done_at, "late_output": old.late_at, "observed_output": old.observed_at}
    assert new.done_at == (ended[column] if column else None)


@pytest.mark.sqlite
def test_a_step_that_is_carried_twice_names_the_job_that_did_it(acme: Workspace) -> None:
    job, heir = dead(noop.s(), acme), noop.s().enqueue(workspace=acme, key="b", countdown=60)
    first = uuid7()
    Step.objects.create(
        job=job, name="s", effect="once", state="started", attempt=1, carried_from=first
    )
    moves.carry_step(job.pk, heir.pk, "s", column=None)
    assert Step.objects.get(job=heir).carried_from == first


# --- a workspace that closes meanwhile -----------------------------------------------------------

DOORS: dict[str, Callable[[Workspace], object]] = {
    "enqueue": lambda workspace: noop.s().enqueue(workspace=workspace.pk, key="new"),
    "enqueue_many": lambda workspace: enqueue_many([(noop.s(), "new")], workspace=workspace.pk),
    "retry": lambda workspace: retry(
        Job.objects.get(workspace=workspace).pk, mode="resume", actor=SYSTEM, reason="r"
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_what_comes_while_a_workspace_closes_waits_for_that_and_is_refused(
    acme: Workspace, door: str
) -> None:
    dead(noop.s(), acme)

    def come() -> None:
        with pytest.raises(WorkspaceClosed):
            DOORS[door](acme)

    with meanwhile(come):
        close(acme.pk, actor=SYSTEM, reason="they left")
    assert Job.objects.count() == 1


@pytest.mark.parametrize("door", ["enqueue", "enqueue_many"])
def test_a_workspace_that_closes_waits_for_what_came_first_and_cancels_it(
    acme: Workspace, door: str
) -> None:
    with meanwhile(lambda: close(acme.pk, actor=SYSTEM, reason="they left")):
        DOORS[door](acme)
    assert Job.objects.get().state == "cancelled"


@pytest.mark.sqlite
@pytest.mark.parametrize("door", DOORS)
def test_nothing_comes_into_a_closed_workspace(acme: Workspace, door: str) -> None:
    dead(noop.s(), acme)
    close(acme.pk, actor=SYSTEM, reason="they left")
    with pytest.raises(WorkspaceClosed):
        DOORS[door](acme)
    assert Job.objects.count() == 1
    assert not connection.in_atomic_block
