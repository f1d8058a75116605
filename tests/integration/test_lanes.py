"""Shares behind a gate, taken in turns; and jobs that go on in another queue."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.db import transaction
from django.db.models.functions import Now

from jobs import checks, gates, moves, registry, runner, tasks
from jobs.enqueue import enqueue, enqueue_many
from jobs.fence import Wake
from jobs.kinds import Run, job_kind
from jobs.models import Gate, Job
from jobs.recovery.retry import retry
from jobs.sweep import sweep
from tests.drills.kinds import gated, throttled
from tests.drills.ledger import effects
from tests.integration.kernel.scene import new_workspace, started
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True)]
KIND = gated.name


@pytest.fixture
def acme() -> Workspace:
    return new_workspace()


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


@pytest.fixture
def kinds_end() -> Iterator[None]:
    kinds = dict(registry.KINDS)
    yield
    registry.KINDS.clear()
    registry.KINDS.update(kinds)


def made(workspace: Workspace, ledger: str, account: str, count: int = 1) -> list[Job]:
    intents = [(gated.s(ledger=ledger, account=account), f"{account}-{n}") for n in range(count)]
    return enqueue_many(intents, workspace=workspace)


def gates_of(wakes: list[Wake]) -> list[str]:
    rows = dict(Job.objects.values_list("pk", "gate"))
    return sorted(rows[wake.job_id].partition(":")[2] for wake in wakes)


def test_each_gate_has_its_share(acme: Workspace, ledger: str) -> None:
    rival = new_workspace()
    made(acme, ledger, "a", 5)
    made(acme, ledger, "b", 1)
    made(rival, ledger, "a", 5)
    assert gates_of(moves.take_gate_shares(KIND, 2, 500)) == ["a", "a", "a", "a", "b"]
    assert moves.take_gate_shares(KIND, 2, 500) == []


def behind_the_platform(workspaces: Sequence[Workspace], count: int) -> None:
    for workspace in workspaces:
        enqueue_many([(throttled.s(ledger="x"), f"{n}") for n in range(count)], workspace=workspace)
    Job.objects.filter(publishes=0).update(wake_at=Now())


def one_runs() -> None:
    (wake,) = moves.take_gate_shares(throttled.name, 1, 500)
    assert moves.claim(wake.job_id, wake.kind, worker="w", lease=60, time_limit=60)


def workspaces_of(wakes: list[Wake]) -> Counter[int]:
    rows = dict(Job.objects.values_list("pk", "workspace_id"))
    return Counter(rows[wake.job_id] for wake in wakes)


def test_workspaces_share_what_is_under_way_behind_a_gate_of_the_platform(acme: Workspace) -> None:
    """It is one account: its provider does not care who asks."""
    rival, third = new_workspace(), new_workspace()
    behind_the_platform([acme, rival, third], 4)
    Job.objects.filter(workspace=acme).update(wake_at=Now() - timedelta(hours=1))
    taken = moves.take_gate_shares(throttled.name, 2, 500)
    assert workspaces_of(taken) == {acme.pk: 1, rival.pk: 1}
    assert moves.take_gate_shares(throttled.name, 2, 500) == []
    for wake in taken:
        moves.claim(wake.job_id, wake.kind, worker="w", lease=60, time_limit=60)
    assert moves.take_gate_shares(throttled.name, 2, 500) == []
    assert workspaces_of(moves.take_gate_shares(throttled.name, 5, 500)).total() == 3


def test_what_runs_in_a_workspace_with_nothing_waiting_counts_for_the_platform_too(
    acme: Workspace,
) -> None:
    behind_the_platform([acme], 1)
    one_runs()
    rival = new_workspace()
    behind_the_platform([rival], 4)
    assert workspaces_of(moves.take_gate_shares(throttled.name, 2, 500)) == {rival.pk: 1}


def test_behind_a_gate_of_the_platform_who_has_fewest_under_way_comes_first(
    acme: Workspace,
) -> None:
    behind_the_platform([acme], 9)
    assert len(moves.take_gate_shares(throttled.name, 3, 500)) == 3
    rival = new_workspace()
    behind_the_platform([rival], 3)
    assert workspaces_of(moves.take_gate_shares(throttled.name, 5, 500)) == {rival.pk: 2}


def test_of_each_workspace_the_oldest_come_first(acme: Workspace) -> None:
    behind_the_platform([acme, new_workspace()], 3)
    for hours, key in enumerate("210", start=1):
        Job.objects.filter(key=key).update(wake_at=Now() - timedelta(hours=hours))
    taken = moves.take_gate_shares(throttled.name, 4, 500)
    assert workspaces_of(taken) == dict.fromkeys(Workspace.objects.values_list("pk", flat=True), 2)
    keys = Job.objects.filter(pk__in=[wake.job_id for wake in taken]).values_list("key", flat=True)
    assert set(keys) == {"0", "1"}
    assert {job.key for job in Job.objects.filter(publishes=0)} == {"2"}


def test_who_runs_something_already_comes_later_however_long_the_rest_waits(
    acme: Workspace,
) -> None:
    behind_the_platform([acme], 4)
    one_runs()
    rival = new_workspace()
    behind_the_platform([rival], 4)
    Job.objects.filter(workspace=acme).update(wake_at=Now() - timedelta(hours=1))
    assert workspaces_of(moves.take_gate_shares(throttled.name, 2, 500)) == {rival.pk: 1}


def test_what_is_published_in_a_workspace_with_nothing_due_counts_for_the_platform_too(
    acme: Workspace,
) -> None:
    behind_the_platform([acme], 2)
    assert len(moves.take_gate_shares(throttled.name, 2, 500)) == 2
    rival = new_workspace()
    behind_the_platform([rival], 4)
    assert moves.take_gate_shares(throttled.name, 2, 500) == []
    assert workspaces_of(moves.take_gate_shares(throttled.name, 3, 500)) == {rival.pk: 1}


def test_what_runs_behind_one_gate_takes_nothing_of_another(acme: Workspace, ledger: str) -> None:
    made(acme, ledger, "a", 3)
    for job in made(acme, ledger, "b", 3)[:2]:
        started(job)
    assert gates_of(moves.take_gate_shares(KIND, 2, 500)) == ["a", "a"]


def test_a_share_that_is_free_again_is_given_on(acme: Workspace, ledger: str) -> None:
    made(acme, ledger, "a", 5)
    for expected in (2, 2, 1, 0):
        taken = moves.take_gate_shares(KIND, 2, 500)
        assert len(taken) == expected
        for wake in taken:
            assert runner.execute(wake.kind, wake.job_id)
    assert effects(ledger) == {"second": 5}


def test_running_ones_count(acme: Workspace, ledger: str) -> None:
    first, *_rest = made(acme, ledger, "a", 5)
    started(first)
    assert len(moves.take_gate_shares(KIND, 2, 500)) == 1


def test_gates_take_turns_where_not_all_fit(acme: Workspace, ledger: str) -> None:
    """However old the backlog of one of them is."""
    old = made(acme, ledger, "a", 5)
    Job.objects.filter(pk__in=[job.pk for job in old]).update(wake_at=Now() - timedelta(hours=1))
    made(acme, ledger, "b", 5)
    made(acme, ledger, "c", 5)
    assert gates_of(moves.take_gate_shares(KIND, 2, 3)) == ["a", "b", "c"]


def test_what_waits_behind_a_closed_gate_uses_no_share(acme: Workspace, ledger: str) -> None:
    """It may have been published before the gate closed."""
    made(acme, ledger, "a", 3)
    assert len(moves.take_gate_shares(KIND, 2, 500)) == 2
    gates.close(acme.pk, "account:a", reason="it does not answer", probe_every=1)
    Job.objects.update(wake_at=Now())
    moves.park_behind_gates(5.0)
    assert moves.take_gate_shares(KIND, 2, 500) == []
    Gate.objects.update(probe_at=Now())
    with transaction.atomic():
        assert gates.let_one_through(gates.to_probe()[0])
    assert len(moves.take_gate_shares(KIND, 2, 500)) == 1
    gates.open_again(acme.pk, "account:a")
    assert len(moves.take_gate_shares(KIND, 2, 500)) == 2


def test_upkeep_publishes_them_and_nobody_else_does(acme: Workspace, ledger: str) -> None:
    made(acme, ledger, "a", 3)
    assert not Job.objects.filter(publishes__gt=0).exists()
    assert moves.take_due(100, [KIND]) == []
    assert sweep().published == 2


def test_a_retry_waits_for_its_share_too(acme: Workspace, ledger: str) -> None:
    (job,) = made(acme, ledger, "a")
    Job.objects.filter(pk=job.pk).update(state="dead", cause="terminal", finished_at=Now())
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason="mended")
    assert [wake.job_id for wake in moves.take_gate_shares(KIND, 2, 500)] == [successor.pk]


def test_a_share_behind_no_gate_is_refused_at_start(kinds_end: None) -> None:
    @job_kind("scene.gateless", per_gate=2)
    def gateless(run: Run) -> None: ...

    @job_kind("scene.both", throttle="bank", per_gate=2, per_workspace=2)
    def both(run: Run) -> None: ...

    @job_kind("scene.none", throttle="bank", per_gate=0)
    def none(run: Run) -> None: ...

    found = {(fault.msg.split()[1].strip(":"), fault.id) for fault in checks.check_kinds()}
    assert found == {
        ("scene.gateless", "jobs.E010"),
        ("scene.both", "jobs.E010"),
        ("scene.none", "jobs.E011"),
    }


# --- lanes


def lengths() -> dict[str, int]:
    """How many messages each queue holds, and then none."""
    with current_app.connection_for_write() as connection:
        channel: Any = connection.channel()
        return {
            name: count
            for name in ("default", "sync", "operations")
            if (count := channel.queue_purge(name))
        }


def test_a_job_can_be_put_in_another_queue(acme: Workspace, ledger: str) -> None:
    lengths()
    intent = gated.s(ledger=ledger, account="a").on("sync")
    (one,) = enqueue_many([(intent, "a")], workspace=acme)
    two = intent.enqueue(workspace=acme, key="b")
    three = enqueue(KIND, workspace=acme, key="c", params=intent.params, queue="operations")
    assert [job.queue for job in (one, two, three)] == ["sync", "sync", "operations"]
    tasks.send(moves.take_gate_shares(KIND, 9, 500))
    assert lengths() == {"sync": 2, "operations": 1}


def test_a_queue_that_nobody_serves_is_refused(acme: Workspace, ledger: str) -> None:
    with pytest.raises(ValueError, match="there is no queue 'nowhere'"):
        gated.s(ledger=ledger, account="a").on("nowhere").enqueue(workspace=acme, key="a")
    assert not Job.objects.exists()


def test_the_jobs_behind_a_gate_change_lanes_together(acme: Workspace, ledger: str) -> None:
    rival = new_workspace()
    running, waits = made(acme, ledger, "a", 2)
    started(running)
    ended = enqueue(KIND, workspace=acme, key="end", params={"ledger": ledger, "account": "a"})
    Job.objects.filter(pk=ended.pk).update(state="dead", cause="terminal", finished_at=Now())
    (other,), (foreign,) = made(acme, ledger, "b"), made(rival, ledger, "a")
    moves.change_lane(acme.pk, "account:a", "sync")
    queues = dict(Job.objects.values_list("pk", "queue"))
    assert queues == {
        running.pk: "sync",
        waits.pk: "sync",
        ended.pk: "default",
        other.pk: "default",
        foreign.pk: "default",
    }


def test_a_retried_attempt_goes_on_in_the_new_lane(acme: Workspace, ledger: str) -> None:
    job = gated.s(ledger=ledger, account="a").enqueue(workspace=acme, key=uuid.uuid4().hex)
    moves.change_lane(acme.pk, "account:a", "sync")
    assert [wake.queue for wake in moves.take_gate_shares(KIND, 2, 500)] == ["sync"]
    assert runner.execute(job.kind, job.pk)
