"""Gates that nothing but a deed opens: one job at a time finds out when it may."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from jobs import drain as due
from jobs import gates, moves, runner
from jobs.models import Gate, Job
from jobs.sweep import sweep
from tests.drills.kinds import by_account
from tests.drills.ledger import effects
from tests.integration.kernel.scene import new_workspace, passes, started
from tests.integration.kernel.sessions import at_once
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True)]
both = pytest.mark.sqlite
NAME = "account:7"


@pytest.fixture
def acme() -> Workspace:
    return new_workspace()


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


def shut(workspace: Workspace, every: float = 60) -> None:
    gates.close(workspace.pk, NAME, reason="it does not answer", probe_every=every)


def waiting(workspace: Workspace, ledger: str, count: int = 1, **more: Any) -> list[Job]:
    """Due jobs behind the gate, oldest first."""
    made = by_account.s(ledger=ledger, account="7", **more)
    return [made.enqueue(workspace=workspace, key=f"{ledger}-{n}") for n in range(count)]


def time_comes() -> None:
    """Let the moment of the next probe come."""
    Gate.objects.update(probe_at=Now() - timedelta(seconds=1))


def let_through() -> int:
    with transaction.atomic():
        return sum(gates.let_one_through(gate) for gate in gates.to_probe())


def chosen() -> Job:
    probe_id = Gate.objects.get().probe_id
    assert probe_id is not None
    return Job.objects.get(pk=probe_id)


@both
def test_nothing_passes_before_the_first_probe(acme: Workspace, ledger: str) -> None:
    shut(acme)
    (job,) = waiting(acme, ledger)
    assert gates.to_probe() == []
    assert runner.execute(job.kind, job.pk) is False
    assert Gate.objects.filter(closed_until__gt=Now() + timedelta(days=3000)).exists()


@both
def test_the_oldest_due_job_passes_alone(acme: Workspace, ledger: str) -> None:
    shut(acme)
    later, oldest, other = waiting(acme, ledger, 3)
    Job.objects.filter(pk=later.pk).update(run_at=Now() + timedelta(seconds=60))
    time_comes()
    assert let_through() == 1
    assert runner.execute(other.kind, other.pk) is False
    assert runner.execute(later.kind, later.pk) is False
    assert runner.execute(oldest.kind, oldest.pk) is True
    assert effects(ledger) == {"first": 1}


@both
def test_inline_drains_what_is_let_through_and_no_more(acme: Workspace, ledger: str) -> None:
    shut(acme)
    waiting(acme, ledger, 3)
    assert due.drain() == 0
    time_comes()
    let_through()
    assert due.drain() == 1
    assert effects(ledger) == {"first": 1}


@both
@pytest.mark.parametrize("fault", ["transient", "terminal"])
def test_a_pass_is_for_one_attempt(acme: Workspace, ledger: str, fault: str) -> None:
    shut(acme)
    first, second = waiting(acme, ledger, 2, fault=fault)
    time_comes()
    let_through()
    assert runner.execute(first.kind, first.pk) is True
    passes(first, 3600)
    assert runner.execute(first.kind, first.pk) is False
    assert runner.execute(second.kind, second.pk) is False
    assert effects(ledger) == {"first": 1}


@both
def test_a_lost_probe_does_not_pass_twice(acme: Workspace, ledger: str) -> None:
    shut(acme)
    (job,) = waiting(acme, ledger)
    time_comes()
    let_through()
    started(job)
    passes(job, 3600)
    sweep(reap_now=True)
    passes(job, 3600)
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("queued", 1)
    assert runner.execute(job.kind, job.pk) is False


@both
def test_while_a_probe_runs_there_is_no_other(acme: Workspace, ledger: str) -> None:
    shut(acme)
    job, other = waiting(acme, ledger, 2)
    time_comes()
    let_through()
    started(job)
    time_comes()
    assert let_through() == 0
    assert chosen() == job
    assert runner.execute(other.kind, other.pk) is False


@both
def test_a_probe_that_nobody_claimed_is_woken_again(acme: Workspace, ledger: str) -> None:
    shut(acme)
    job, _other = waiting(acme, ledger, 2)
    for _ in range(2):
        time_comes()
        assert let_through() == 1
        assert chosen() == job


@both
def test_after_a_failed_probe_the_next_one_comes(acme: Workspace, ledger: str) -> None:
    shut(acme)
    job, other = waiting(acme, ledger, 2, fault="terminal")
    for expected in (job, other):
        time_comes()
        assert let_through() == 1
        assert chosen() == expected
        assert runner.execute(expected.kind, expected.pk) is True


@both
def test_probes_come_ever_later_up_to_an_hour(acme: Workspace, ledger: str) -> None:
    shut(acme, 60)
    waiting(acme, ledger)
    waits = []
    for _ in range(8):
        time_comes()
        let_through()
        gate = Gate.objects.annotate(left=F("probe_at") - Now()).get()
        waits.append(round(gate.left.total_seconds() / 60))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


@both
def test_closing_it_again_changes_nothing_of_the_course(acme: Workspace, ledger: str) -> None:
    shut(acme)
    waiting(acme, ledger)
    time_comes()
    let_through()
    before = Gate.objects.values("probe_at", "probe_every", "probe_id", "probe_attempt").get()
    shut(acme)
    assert Gate.objects.values(*before).get() == before


@both
def test_a_gate_that_time_had_closed_is_probed_from_then_on(acme: Workspace, ledger: str) -> None:
    gates.close(acme.pk, NAME, seconds=5, reason="429")
    shut(acme)
    gate = Gate.objects.get()
    assert gate.probe_at is not None
    assert gate.probe_every == 60


def test_what_is_parked_is_published_when_it_is_let_through(acme: Workspace, ledger: str) -> None:
    shut(acme)
    job, other = waiting(acme, ledger, 2)
    Job.objects.update(wake_at=Now())
    moves.park_behind_gates(5.0)
    assert moves.take_due(100) == []
    time_comes()
    assert sweep().published == 1
    job.refresh_from_db()
    other.refresh_from_db()
    assert (job.publishes, other.publishes) == (1, 0)


def test_when_it_opens_the_rest_is_published_oldest_first(acme: Workspace, ledger: str) -> None:
    shut(acme)
    jobs = waiting(acme, ledger, 4)
    for age, job in zip((40, 20, 30, 10), jobs, strict=True):
        Job.objects.filter(pk=job.pk).update(run_at=Now() - timedelta(seconds=age), wake_at=Now())
    moves.park_behind_gates(5.0)
    assert gates.open_again(acme.pk, NAME) is True
    first, second = (moves.take_due(2), moves.take_due(2))
    assert {wake.job_id for wake in first} == {jobs[0].pk, jobs[2].pk}
    assert {wake.job_id for wake in second} == {jobs[1].pk, jobs[3].pk}


def test_two_passes_at_once_let_one_through(acme: Workspace, ledger: str) -> None:
    shut(acme)
    jobs = waiting(acme, ledger, 3)
    time_comes()
    at_once(sweep, sweep)
    ran = [runner.execute(job.kind, job.pk) for job in jobs]
    assert ran == [True, False, False]


@both
def test_the_gate_of_another_workspace_lets_nothing_of_this_one_through(
    acme: Workspace, ledger: str
) -> None:
    rival = new_workspace()
    shut(acme)
    shut(rival)
    mine, theirs = waiting(acme, ledger)[0], waiting(rival, ledger)[0]
    gate = Gate.objects.get(workspace=acme)
    Gate.objects.filter(pk=gate.pk).update(probe_at=Now())
    assert let_through() == 1
    assert runner.execute(theirs.kind, theirs.pk) is False
    assert runner.execute(mine.kind, mine.pk) is True
