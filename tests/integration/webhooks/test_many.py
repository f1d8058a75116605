"""Thousands of deliveries: what each costs stays the same, counted in rows read and not in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from jobs import gates, moves, registry
from jobs.fence import Wake
from jobs.models import Gate, Job, Operation, OperationItem, Step
from jobs.models.ids import uuid7
from jobs.recovery import bulk
from jobs.recovery.course import counts
from jobs.sweep import sweep
from tests.integration.bulk_scene import engine_of, turn
from tests.support.missed import missed
from tests.support.reading import rows_read
from webhooks import endings, endpoints
from webhooks.models import Endpoint, WebhookDelivery
from webhooks.recover import recover
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)
FEW, MANY = 300, 1500
TABLES = ("jobs_job", "jobs_gate", "jobs_step", "jobs_operation", "jobs_operationitem")
KIND = "webhooks.deliver"


def endpoint(workspace: Workspace, missing: int) -> Endpoint:
    one = endpoints.create(workspace, url="http://127.0.0.1:9/", events=["*"], actor=SYSTEM)[0]
    missed(workspace, one, missing)
    return one


# --- a recovery


@pytest.fixture
def twenty_a_turn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bulk, "BATCH", 20)
    monkeypatch.setattr(bulk, "TURN_SECONDS", 0.0)
    yield
    with connection.cursor() as cursor:
        cursor.execute("RESET enable_seqscan")


def recovery(workspace: Workspace, size: int, done: int = 0) -> Operation:
    """One of so many items, so many of which are done; its engine has had turns before."""
    since = timezone.now() - timedelta(hours=2)
    one = endpoint(workspace, size)
    made = recover(one.pk, since=since, actor=SYSTEM, reason="it is mended").operation
    Operation.objects.filter(pk=made.pk).update(rate_per_minute=None)
    items = OperationItem.objects.filter(operation=made, position__lte=done)
    items.update(outcome="done", done_at=Now(), result_id=str(uuid7()))
    engine = engine_of(made)
    Job.objects.filter(pk=engine.pk).update(attempt=1)
    Step.objects.bulk_create(
        Step(job=engine, name=f"item:{n + 1}", effect="local", state="done", attempt=1, output="x")
        for n in range(done)
    )
    return made


def read_in_a_turn(operation: Operation) -> int:
    before = counts(operation.pk)["done"]
    with connection.cursor() as cursor:  # small tables are not read whole: all costs compare
        cursor.execute("SET enable_seqscan = off")
    read = rows_read(lambda: turn(operation), *TABLES, "webhooks_webhookdelivery")
    assert counts(operation.pk)["done"] == before + 20
    return read


def test_an_item_of_a_recovery_costs_the_same_from_first_to_last(
    acme: Workspace, twenty_a_turn: None
) -> None:
    """W-65."""
    few = read_in_a_turn(recovery(acme, FEW, done=FEW - 50))
    first = read_in_a_turn(recovery(acme, MANY))
    last = read_in_a_turn(recovery(acme, MANY, done=MANY - 50))
    assert max(first, last) <= few * 1.4, (few, first, last)


def test_canaries_are_not_counted_among_all(acme: Workspace, twenty_a_turn: None) -> None:
    costs = []
    for size in (FEW, MANY):
        operation = recovery(acme, size, done=size - 100)
        Operation.objects.filter(pk=operation.pk).update(canary=3)
        Step.objects.create(
            job=engine_of(operation), name="canary", effect="local", state="done", attempt=1
        )
        costs.append(read_in_a_turn(operation))
    assert costs[1] <= costs[0] * 1.4, costs


def test_progress_is_told_without_counting(acme: Workspace, twenty_a_turn: None) -> None:
    operation = recovery(acme, 60)
    for _ in range(3):
        turn(operation)
    assert engine_of(operation).progress == {"fraction": 2 / 3, "text": "40 of 60"}


# --- a backlog


_WAITING = """UPDATE jobs_job SET state = 'queued', cause = '', finished_at = NULL,
  wake_at = now() - n * interval '1 millisecond', run_at = now() - n * interval '1 millisecond'
FROM (SELECT id AS one, row_number() OVER () AS n FROM jobs_job) numbered WHERE id = one"""


def backlog(workspace: Workspace, waiting: int) -> list[Endpoint]:
    """Of one endpoint so many wait for their turn, of nine more one each; all are due."""
    Job.objects.all().delete()
    Gate.objects.all().delete()
    made = [endpoint(workspace, waiting), *(endpoint(workspace, 1) for _ in range(9))]
    with connection.cursor() as cursor:
        cursor.execute(_WAITING)
    WebhookDelivery.objects.update(status="open", finished_at=None)
    return made


def read_by(work: Callable[[], object]) -> int:
    return rows_read(work, *TABLES)


def test_a_backlog_is_not_read_to_choose_who_is_next(acme: Workspace) -> None:
    """Nor to take one up, nor to see that each has its share."""
    costs = []
    for size in (FEW, MANY):
        backlog(acme, size)
        wakes: list[Wake] = []
        chosen = read_by(lambda: wakes.extend(moves.take_gate_shares(KIND, 4, 500)))  # noqa: B023
        assert len(wakes) == 4 + 9
        none = read_by(lambda: wakes.extend(moves.take_gate_shares(KIND, 4, 500)))  # noqa: B023
        assert len(wakes) == 4 + 9
        first = partial(moves.claim, wakes[0].job_id, KIND, worker="w", lease=60, time_limit=45)
        costs.append((chosen, none, read_by(first)))
    assert all(many <= few * 1.1 + 20 for few, many in zip(*costs, strict=True)), costs


def test_what_a_gate_has_parked_is_not_read(acme: Workspace) -> None:
    """For ever, or until a receiver that is busy may be asked for more."""
    costs = []
    for size, seconds in ((FEW, 600.0), (MANY, 600.0), (MANY, gates.UNTIL_OPENED)):
        full, *_others = backlog(acme, size)
        gates.close(acme.pk, full.gate, seconds=seconds, reason="it is busy")
        moves.park_behind_gates(5.0)
        costs.append(read_by(lambda: moves.take_gate_shares(KIND, 4, 500)))
    assert max(costs[1:]) <= costs[0] * 1.1 + 10, costs


def test_a_failure_does_not_look_through_all_that_was_taken(acme: Workspace) -> None:
    one = endpoint(acme, MANY)
    WebhookDelivery.objects.update(status="succeeded")
    Endpoint.objects.update(failures=9, first_failed_at=Now(), last_failed_at=Now())
    one.refresh_from_db()
    read = rows_read(lambda: endings._judged(one, None), "webhooks_webhookdelivery")
    assert (read, endings._judged(one, None)) == (0, ("failing", None))


def test_a_pass_reads_a_backlog_once_and_not_for_each_gate(acme: Workspace) -> None:
    """Once: what is due goes by its moment, whatever its kind."""
    backlog(acme, MANY)
    drills = [name for name in registry.KINDS if name.startswith("drill")]
    with pytest.MonkeyPatch.context() as patch:
        for name in drills:
            patch.delitem(registry.KINDS, name)
        sweep()
        assert read_by(sweep) <= MANY * 1.1 + 300
