"""Pause, go, stop; canary, rate and stop rule; what becomes of an engine that dies."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction
from django.db.models.functions import Now

from jobs import gates, runner
from jobs.errors import OperationConflict, Refused
from jobs.models import Event, Gate, Job, Operation, OperationItem
from jobs.recovery import bulk as engine
from jobs.recovery.cancel import cancel
from jobs.recovery.job_verbs import ENGINE
from jobs.recovery.operation import pause, resume_operation, stop
from jobs.recovery.resolve import resolve as resolve_job
from jobs.recovery.retry import retry
from jobs.states import State
from jobs.sweep import sweep
from tests.integration.bulk_scene import (
    QUICK,
    WHY,
    actor,
    drafted,
    engine_of,
    member,
    outcomes,
    rows,
    started,
    successors,
    turn,
    turns,
)
from tests.integration.meanwhile import meanwhile
from workspaces.actors import SYSTEM
from workspaces.audit import OperationRepeated
from workspaces.closing import close
from workspaces.models import AuditEvent, Membership, Workspace
from workspaces.permissions import NotAllowed, Role

pytestmark = pytest.mark.django_db(transaction=True)


def results(operation: Operation) -> list[str]:
    items = OperationItem.objects.filter(operation=operation).order_by("position")
    return [item.result_id for item in items if item.result_id]


def end(job_ids: list[str], state: State) -> None:
    """Let retried jobs end, whatever their handler would have done."""
    cause = "terminal" if state == State.DEAD else ""
    Job.objects.filter(pk__in=job_ids).update(state=state, cause=cause, finished_at=Now())


def stops(operation: Operation, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engine's turn be over after so many items."""
    monkeypatch.setattr(engine, "BATCH", at)
    monkeypatch.setattr(engine, "TURN_SECONDS", -1.0)


def test_a_paused_operation_begins_no_item_and_goes_on_after_the_last(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(acme, 6)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    stops(operation, 2, monkeypatch)
    assert outcomes(turn(operation)) == {"done": 2, "pending": 4}
    paused = pause(operation.pk, actor=actor(ana), reason="lunch")
    assert (paused.state, paused.note) == ("paused", "ana: lunch")
    assert outcomes(turn(operation)) == {"done": 2, "pending": 4}
    assert engine_of(operation).attempt == 1, "its gate lets no worker claim the engine"
    going = resume_operation(operation.pk, actor=actor(ana), reason="back")
    assert (going.state, going.note, going.watched_from) == ("running", "", 3)
    turn(operation)
    assert engine_of(operation).progress == {"fraction": 2 / 6, "text": "2 of 6"}
    turn(operation)
    assert (turns(operation).state, outcomes(operation)) == ("finished", {"done": 6})
    assert successors(acme) == 6
    assert not Gate.objects.exists()
    trail = AuditEvent.objects.filter(object_type="operation").order_by("pk")
    assert [event.action for event in trail] == [
        "operation.start",
        "operation.pause",
        "operation.go",
    ]


def test_a_paused_engine_is_published_only_once_it_goes_on(acme: Workspace) -> None:
    rows(acme, 1)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    pause(operation.pk, actor=actor(ana), reason=WHY)
    Job.objects.filter(pk=engine_of(operation).pk).update(wake_at=Now())
    sweep()
    assert (engine_of(operation).publishes, engine_of(operation).wait_reason) == (0, "throttled")
    resume_operation(operation.pk, actor=actor(ana), reason=WHY)
    sweep()
    assert engine_of(operation).publishes == 1


def test_a_gate_that_somebody_opened_by_hand_does_not_let_a_paused_one_go_on(
    acme: Workspace,
) -> None:
    rows(acme, 1)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    pause(operation.pk, actor=actor(ana), reason=WHY)
    gates.open_again(acme.pk, operation.gate)
    assert outcomes(turn(operation)) == {"pending": 1}
    assert engine_of(operation).wait_reason == "deferred"


def test_a_stopped_operation_keeps_what_it_did_and_its_engine_ends(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(acme, 4)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    stops(operation, 1, monkeypatch)
    turn(operation)
    stopped = stop(operation.pk, actor=actor(ana), reason="wrong kind")
    assert (stopped.state, stopped.note) == ("stopped", "ana: wrong kind")
    assert stopped.finished_at is not None
    assert outcomes(turn(operation)) == {"done": 1, "pending": 3}
    assert engine_of(operation).state == "succeeded"
    assert operation.state == "stopped"
    with pytest.raises(OperationConflict, match="the operation is stopped"):
        resume_operation(operation.pk, actor=actor(ana), reason=WHY)


def test_a_paused_operation_and_a_draft_can_be_stopped(acme: Workspace) -> None:
    rows(acme, 1)
    ana = member(acme)
    paused = started(drafted(acme, ana), ana)
    pause(paused.pk, actor=actor(ana), reason=WHY)
    stop(paused.pk, actor=actor(ana), reason=WHY)
    assert turn(paused).state == "stopped"
    assert engine_of(paused).state == "succeeded"
    assert stop(drafted(acme, ana).pk, actor=actor(ana), reason=WHY).state == "stopped"


def test_pause_waits_for_the_item_under_way_and_holds_the_next(acme: Workspace) -> None:
    rows(acme, 2)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    engine_row = Job.objects.filter(pk=engine_of(operation).pk)
    with meanwhile(lambda: pause(operation.pk, actor=actor(ana), reason=WHY)):
        list(engine_row.select_for_update())  # as a step of the engine does
        item = OperationItem.objects.filter(operation=operation, position=1)
        item.update(outcome="done", done_at=Now())
        assert Operation.objects.get(pk=operation.pk).state == "running"
    assert outcomes(turn(operation)) == {"done": 1, "pending": 1}
    assert operation.state == "paused"


def test_an_operator_brakes_a_large_one_and_a_lead_lets_it_go_on(acme: Workspace) -> None:
    rows(acme, 51)
    ana, lead = member(acme), member(acme, Role.LEAD, "lea")
    operation = started(drafted(acme, lead), lead)
    pause(operation.pk, actor=actor(ana), reason=WHY)
    with pytest.raises(NotAllowed) as refused:
        resume_operation(operation.pk, actor=actor(ana), reason=WHY)
    assert refused.value.right == "operations.large"
    assert resume_operation(operation.pk, actor=actor(lead), reason=WHY).state == "running"


def test_the_rate_lets_so_many_through_and_puts_the_engine_back(acme: Workspace) -> None:
    rows(acme, 3)
    ana = member(acme)
    operation = started(drafted(acme, ana, care=replace(QUICK, rate_per_minute=2)), ana)
    runner.execute(ENGINE, engine_of(operation).pk)
    assert outcomes(operation) == {"done": 1, "pending": 2}
    job = engine_of(operation)
    assert (job.state, job.wait_reason, job.failures) == ("queued", "deferred", 0)
    operation.refresh_from_db()
    assert operation.paced_until is not None
    item = OperationItem.objects.get(operation=operation, position=1)
    assert item.done_at is not None
    wait = operation.paced_until - item.done_at
    assert timedelta(seconds=25) < wait < timedelta(seconds=40)
    assert abs(job.run_at - operation.paced_until) < timedelta(seconds=10)
    runner.execute(ENGINE, job.pk)
    assert outcomes(operation) == {"done": 1, "pending": 2}


def test_skipped_items_use_none_of_the_rate(acme: Workspace) -> None:
    rows(acme, 4, params={"hook": "refuse"})
    ana = member(acme)
    operation = started(drafted(acme, ana, care=replace(QUICK, rate_per_minute=1)), ana)
    runner.execute(ENGINE, engine_of(operation).pk)
    assert outcomes(operation) == {"skipped": 4}


def test_the_rest_waits_until_the_canary_has_ended_well(acme: Workspace) -> None:
    rows(acme, 5)
    ana = member(acme)
    operation = started(drafted(acme, ana, care=replace(QUICK, canary=2)), ana)
    turn(operation)
    assert outcomes(turn(operation)) == {"done": 2, "pending": 3}
    first, second = results(operation)
    end([first], State.SUCCEEDED)
    assert outcomes(turn(operation)) == {"done": 2, "pending": 3}
    assert engine_of(operation).wait_reason == "deferred"
    end([second], State.SUCCEEDED)
    assert outcomes(turn(operation)) == {"done": 5}
    assert operation.state == "finished"


@pytest.mark.parametrize("ending", [State.DEAD, State.CANCELLED])
def test_a_canary_that_ends_badly_pauses_it_until_somebody_says_go(
    acme: Workspace, ending: State
) -> None:
    rows(acme, 4)
    ana = member(acme)
    operation = started(drafted(acme, ana, care=replace(QUICK, canary=2)), ana)
    turn(operation)
    first, second = results(operation)
    end([first], State.SUCCEEDED)
    end([second], ending)
    turn(operation)
    assert (operation.state, outcomes(operation)) == ("paused", {"done": 2, "pending": 2})
    assert operation.note == f"a canary ended badly: {second}"
    event = Event.objects.get(type="operation.paused")
    assert (event.subject, event.data["note"]) == (str(operation.pk), operation.note)
    resume_operation(operation.pk, actor=actor(ana), reason="the second was a test order")
    assert turn(operation).state == "finished"
    assert outcomes(operation) == {"done": 4}


def test_a_canary_that_cannot_be_done_pauses_it_at_once(acme: Workspace) -> None:
    rows(acme, 1, prefix="a-broken", params={"hook": "key_error"})
    rows(acme, 3)
    ana = member(acme)
    operation = started(drafted(acme, ana, care=replace(QUICK, canary=2)), ana)
    turn(operation)
    assert (operation.state, outcomes(operation)) == ("paused", {"failed": 1, "pending": 3})
    assert operation.note == "a canary could not be done. The last one: KeyError: 'missing'"


def test_skipped_items_are_no_canaries(acme: Workspace) -> None:
    rows(acme, 2, prefix="a-refused", params={"hook": "refuse"})
    rows(acme, 3)
    ana = member(acme)
    operation = started(drafted(acme, ana, care=replace(QUICK, canary=1)), ana)
    turn(operation)
    assert outcomes(operation) == {"skipped": 2, "done": 1, "pending": 2}


def test_deeds_that_fail_in_a_row_pause_it(acme: Workspace) -> None:
    rows(acme, 2)
    rows(acme, 5, prefix="p-broken", params={"hook": "key_error"})
    ana = member(acme)
    care = replace(QUICK, stop_after=3, stop_ratio=1.0)
    operation = started(drafted(acme, ana, care=care), ana)
    turn(operation)
    assert (operation.state, outcomes(operation)) == (
        "paused",
        {"done": 2, "failed": 3, "pending": 2},
    )
    assert operation.note.startswith("the last 3 whose fate is known ended badly")
    resume_operation(operation.pk, actor=actor(ana), reason="go on all the same")
    assert turn(operation).state == "finished", "it counts anew, and two more are not three"


def test_retried_jobs_that_die_again_pause_it(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(acme, 9)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    stops(operation, 4, monkeypatch)
    turn(operation)
    end(results(operation)[1:4], State.DEAD)
    turn(operation)
    assert (operation.state, outcomes(operation)) == ("paused", {"done": 4, "pending": 5})
    assert operation.note == "the last 3 whose fate is known ended badly"


def test_an_actor_who_loses_their_rights_does_nothing_more(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(acme, 8)
    ana, ben = member(acme), member(acme, name="ben")
    operation = started(drafted(acme, ana), ana)
    stops(operation, 2, monkeypatch)
    turn(operation)
    Membership.objects.filter(user=ana).update(role=Role.VIEWER)
    turns(operation)
    assert (operation.state, outcomes(operation)) == (
        "paused",
        {"done": 2, "failed": 3, "pending": 3},
    )
    item = OperationItem.objects.filter(operation=operation, outcome="failed").first()
    assert item is not None
    assert item.code == "not_allowed"
    assert "'operations.run'" in item.sentence
    assert successors(acme) == 2
    resume_operation(operation.pk, actor=actor(ben), reason="I take it over")
    monkeypatch.undo()
    assert outcomes(turns(operation)) == {"done": 5, "failed": 3}
    assert AuditEvent.objects.filter(action="job.resume", actor=f"user:{ben.pk}").count() == 3


@pytest.mark.parametrize("gone", ["deleted", "inactive"])
def test_an_actor_who_is_gone_does_nothing_more(acme: Workspace, gone: str) -> None:
    rows(acme, 2)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    if gone == "deleted":
        ana.delete()
    else:
        type(ana).objects.filter(pk=ana.pk).update(is_active=False)
    turns(operation)
    assert outcomes(operation) == {"failed": 2}
    assert successors(acme) == 0


def test_a_lead_who_becomes_an_operator_no_longer_runs_a_large_one(acme: Workspace) -> None:
    rows(acme, 51)
    lead = member(acme, Role.LEAD)
    operation = started(drafted(acme, lead), lead)
    Membership.objects.filter(user=lead).update(role=Role.OPERATOR)
    turn(operation)
    assert outcomes(operation) == {"failed": 3, "pending": 48}
    assert "'operations.large'" in operation.note


def test_an_engine_that_dies_pauses_it_and_go_resumes_the_engine(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(acme, 4)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    stops(operation, 2, monkeypatch)
    turn(operation)
    monkeypatch.setattr(engine, "_next", broken)
    turn(operation)
    first = engine_of(operation)
    assert (first.state, operation.state) == ("dead", "paused")
    assert operation.note == f"its engine, job {first.pk}, is dead (terminal)"
    monkeypatch.undo()
    resume_operation(operation.pk, actor=actor(ana), reason=WHY)
    second = engine_of(operation)
    assert (second.retry_of_id, second.steps.count()) == (first.pk, 2)
    assert turn(operation).state == "finished"
    assert outcomes(operation) == {"done": 4}
    assert successors(acme) == 4


def broken(*_: object) -> list[int]:
    raise RuntimeError("no such luck")


@pytest.mark.parametrize("mode", ["resume", "restart"])
def test_retrying_the_engines_job_lets_its_operation_go_on_without_repeating_an_item(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    rows(acme, 3)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    stops(operation, 2, monkeypatch)
    turn(operation)
    monkeypatch.setattr(engine, "_next", broken)
    turn(operation)
    monkeypatch.undo()
    again = retry(engine_of(operation).pk, mode=mode, actor=actor(ana), reason=WHY)
    assert engine_of(operation).pk == again.pk
    assert turn(operation).state == "finished"
    assert successors(acme) == 3


def test_stopping_one_whose_engine_is_dead_resolves_the_engine(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(acme, 1)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    monkeypatch.setattr(engine, "_next", broken)
    turn(operation)
    stop(operation.pk, actor=actor(ana), reason="given up")
    job = engine_of(operation)
    assert (job.state, job.resolution) == ("dead", "given up")
    with pytest.raises(Refused, match="the operation that this job drove is stopped"):
        retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)


def test_resolving_the_engines_job_stops_its_operation(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(acme, 1)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    monkeypatch.setattr(engine, "_next", broken)
    turn(operation)
    resolve_job(engine_of(operation).pk, actor=SYSTEM, reason=WHY)
    operation.refresh_from_db()
    assert operation.state == "stopped"


def test_the_engines_job_is_not_cancelled_under_its_operation(acme: Workspace) -> None:
    rows(acme, 1)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    with pytest.raises(Refused, match=f"job operation stop {operation.pk}"):
        cancel(engine_of(operation).pk, actor=SYSTEM, reason=WHY)
    assert engine_of(operation).state == "queued"


@pytest.mark.parametrize("paused", [True, False])
def test_closing_the_workspace_stops_it(acme: Workspace, *, paused: bool) -> None:
    rows(acme, 1)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    if paused:
        pause(operation.pk, actor=actor(ana), reason=WHY)
    close(acme.pk, actor=SYSTEM, reason=WHY)
    operation.refresh_from_db()
    assert (operation.state, engine_of(operation).state) == ("stopped", "cancelled")
    assert not Gate.objects.exists()


def test_a_deed_on_an_operation_is_done_once(acme: Workspace) -> None:
    rows(acme, 1)
    ana, form = member(acme), uuid4()
    operation = started(drafted(acme, ana), ana)
    for _ in range(2):
        pause(operation.pk, actor=actor(ana), reason=WHY, operation_id=form)
    assert AuditEvent.objects.filter(action="operation.pause").count() == 1
    with pytest.raises(OperationRepeated):
        stop(operation.pk, actor=actor(ana), reason=WHY, operation_id=form)


def test_two_who_start_one_draft_make_one_engine(acme: Workspace) -> None:
    rows(acme, 1)
    ana = member(acme)
    operation = drafted(acme, ana)
    refused = list[str]()

    def second() -> None:
        try:
            started(operation, ana)
        except OperationConflict as error:
            refused.append(error.code)

    with meanwhile(second), transaction.atomic():
        started(operation, ana)
    assert refused == ["operation_state"]
    assert Job.objects.filter(kind=ENGINE).count() == 1
