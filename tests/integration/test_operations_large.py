"""Many items: the work for each stays the same, and one alert tells of the failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from alerts.models import Alert
from alerts.operations import RULE
from jobs.errors import OperationConflict
from jobs.models import Event, Job
from jobs.recovery import bulk as engine
from jobs.recovery import item_verbs
from jobs.recovery.item_verbs import Judgement, Mandate
from jobs.recovery.operation import resolve, resume_operation, stop
from jobs.sweep import sweep
from tests.integration.bulk_scene import (
    KIND,
    WHY,
    actor,
    drafted,
    member,
    outcomes,
    rows,
    started,
    turn,
    turns,
)
from workspaces.actors import Actor
from workspaces.models import Workspace
from workspaces.permissions import Role

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def counting() -> Iterator[list[str]]:
    """Django's statements; the kernel's raw ones are the same few for each step."""
    seen: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(note):
        yield seen


def queries_for(workspace: Workspace, count: int, verb: str, prefix: str) -> float:
    rows(workspace, count, prefix)
    lead = member(workspace, Role.LEAD, f"lead-of-{prefix}")
    matching = f"state=dead,kind={KIND}" if verb == "resume" else "prefix=" + prefix
    operation = started(drafted(workspace, lead, verb=verb, matching=matching), lead)
    with counting() as seen:
        turns(operation)
    assert (operation.state, outcomes(operation)) == ("finished", {"done": count})
    return len(seen) / count


def test_an_item_takes_as_many_queries_among_many_as_among_few(acme: Workspace) -> None:
    few = queries_for(acme, 10, "resume", "few")
    many = queries_for(acme, 60, "resume", "many")
    assert many <= few


@pytest.fixture
def looked_at() -> Iterator[list[str]]:
    """What was done by a verb of another part, which does to jobs as little as can be done."""
    done: list[str] = []

    def select(workspace_id: int, criteria: Mapping[str, str], limit: int) -> list[str]:
        jobs = Job.objects.filter(workspace=workspace_id, key__startswith=criteria["prefix"])
        return [str(pk) for pk in jobs.order_by("pk").values_list("pk", flat=True)[:limit]]

    def judge(_workspace: int, ids: Sequence[str], _actor: Actor) -> list[Judgement]:
        return [Judgement(object_id) for object_id in ids]

    def act(object_id: str, _mandate: Mandate) -> str:
        done.append(object_id)
        return object_id

    def fates(results: Sequence[str]) -> dict[str, bool]:
        return dict.fromkeys(results, True)

    verb = item_verbs.ItemVerb("look_at", select, judge, act, fates)
    item_verbs.register(verb)
    with pytest.raises(ValueError, match="have a verb 'look_at' already"):
        item_verbs.register(verb)
    yield done
    del item_verbs._verbs[verb.name]


@pytest.mark.timeout(900)
def test_fifteen_hundred_items_are_each_done_once_in_their_order_at_the_same_cost(
    acme: Workspace, looked_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TURN_SECONDS", 0.0)  # a turn for every hundred
    few = queries_for(acme, 100, "look_at", "few")
    looked_at.clear()
    many = queries_for(acme, 1500, "look_at", "many")
    jobs = Job.objects.filter(key__startswith="many").order_by("pk")
    assert looked_at == [str(pk) for pk in jobs.values_list("pk", flat=True)]
    assert many <= few


def test_failures_open_one_alert_which_ends_when_somebody_has_looked(acme: Workspace) -> None:
    rows(acme, 10)
    rows(acme, 2, prefix="p-broken", params={"hook": "key_error"})
    ana = member(acme)
    operation = turns(started(drafted(acme, ana), ana))
    assert (operation.state, outcomes(operation)) == ("finished", {"done": 10, "failed": 2})
    event = Event.objects.get(type="operation.finished")
    assert event.data["counts"] == {"pending": 0, "done": 10, "skipped": 0, "failed": 2}
    alert = Alert.objects.get(rule=RULE)
    assert (alert.title, alert.count) == ("Bulk resume of 12 items finished, 2 failed", 2)
    assert (alert.state, alert.severity, alert.workspace) == ("open", "error", acme)
    assert str(operation.pk) in alert.summary
    Event.objects.filter(pk=event.pk).update(delivered_at=None)
    sweep()
    assert Alert.objects.filter(rule=RULE).count() == 1
    resolve(operation.pk, actor=actor(ana), reason="both refunded by hand")
    alert.refresh_from_db()
    assert (alert.state, alert.resolution) == (
        "resolved",
        "An operator looked after what had failed.",
    )
    assert Event.objects.filter(type="alert.opened", subject=alert.pk).count() == 1
    with pytest.raises(OperationConflict, match="resolved already, with: both refunded"):
        resolve(operation.pk, actor=actor(ana), reason="again")


def test_one_that_pauses_by_itself_opens_the_same_one_alert(acme: Workspace) -> None:
    rows(acme, 5, params={"hook": "key_error"})
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    turn(operation)
    alert = Alert.objects.get(rule=RULE)
    assert alert.title == "Bulk resume of 5 items paused by itself"
    assert alert.trace["note"] == operation.note != ""
    resume_operation(operation.pk, actor=actor(ana), reason=WHY)
    turn(operation)
    alert.refresh_from_db()
    assert (alert.state, alert.title) == ("open", "Bulk resume of 5 items finished, 5 failed")
    assert Alert.objects.filter(rule=RULE).count() == 1


def test_stopping_one_that_paused_by_itself_ends_its_alert(acme: Workspace) -> None:
    rows(acme, 5, params={"hook": "key_error"})
    ana = member(acme)
    operation = turn(started(drafted(acme, ana), ana))
    alert = Alert.objects.get(rule=RULE)
    stop(operation.pk, actor=actor(ana), reason=WHY)
    alert.refresh_from_db()
    assert (alert.state, alert.resolution) == ("resolved", "An operator stopped the operation.")
    assert Alert.objects.filter(rule=RULE).count() == 1


def test_one_without_failures_alerts_nobody(acme: Workspace) -> None:
    rows(acme, 1)
    rows(acme, 1, prefix="refused", params={"hook": "refuse"})
    ana = member(acme)
    operation = turns(started(drafted(acme, ana), ana))
    assert outcomes(operation) == {"done": 1, "skipped": 1}
    assert Event.objects.filter(type="operation.finished").count() == 1
    assert not Alert.objects.filter(rule=RULE).exists()
