"""What makes a job wait and uses no budget: closed gates, held locks, its share."""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models import F
from django.db.models.functions import Now

from jobs import gates, moves, registry, runner
from jobs.errors import LockHeld
from jobs.kinds import Run, job_kind
from jobs.locks import force_open
from jobs.models import Gate, Job, Lock
from jobs.recovery.reconcile import reconcile
from jobs.recovery.retry import retry
from jobs.sweep import sweep
from tests.drills.kinds import by_account, locking, shared, throttled
from tests.drills.ledger import effects
from tests.integration.kernel.sessions import at_once
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def workspace() -> Workspace:
    return Workspace.objects.create(slug=f"w{uuid.uuid4().hex[:8]}", name="W")


@pytest.fixture
def other() -> Workspace:
    return Workspace.objects.create(slug=f"w{uuid.uuid4().hex[:8]}", name="Other")


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


@pytest.fixture
def kinds_end() -> Iterator[None]:
    """Kinds that a test registers are gone after it."""
    kinds = dict(registry.KINDS)
    yield
    registry.KINDS.clear()
    registry.KINDS.update(kinds)


def run_now(job: Job) -> Job:
    """One attempt, whatever the job waits for by the clock."""
    Job.objects.filter(pk=job.pk, state="queued").update(run_at=Now())
    runner.execute(job.kind, job.pk)
    job.refresh_from_db()
    return job


def due_now(*jobs: Job) -> None:
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(run_at=Now(), wake_at=Now())


def open_all() -> None:
    """Let the closed time of every gate pass."""
    Gate.objects.update(closed_until=Now() - timedelta(seconds=1))


# --- gates


def test_a_rate_limit_closes_the_gate_and_uses_no_budget(workspace: Workspace, ledger: str) -> None:
    job = throttled.s(ledger=ledger, fault="http_429").enqueue(workspace=workspace, key="a")
    run_now(job)
    assert (job.state, job.wait_reason) == ("queued", "throttled")
    assert (job.failures, job.deferrals, job.attempts.count()) == (0, 1, 0)
    left = Gate.objects.annotate(left=F("closed_until") - Now()).get(name="*bank").left
    assert timedelta(seconds=5) < left <= timedelta(seconds=7)


def test_a_rate_limit_uses_no_budget_even_where_none_is_left(
    workspace: Workspace, ledger: str
) -> None:
    job = throttled.s(ledger=ledger, fault="http_429").enqueue(workspace=workspace, key="a")
    Job.objects.filter(pk=job.pk).update(failures=3)
    run_now(job)
    assert (job.state, job.wait_reason, job.failures) == ("queued", "throttled", 3)


def test_siblings_wait_behind_it_unclaimed_and_unpublished(
    workspace: Workspace, other: Workspace, ledger: str
) -> None:
    sibling = throttled.s(ledger=ledger).enqueue(workspace=other, key="b")
    job = throttled.s(ledger=ledger, fault="http_429").enqueue(workspace=workspace, key="a")
    run_now(job)
    due_now(sibling)
    assert runner.execute(sibling.kind, sibling.pk) is False
    moves.park_behind_gates(5.0)
    assert sibling.pk not in [wake.job_id for wake in moves.take_due(100)]
    sibling.refresh_from_db()
    assert (sibling.wait_reason, sibling.attempt) == ("throttled", 0)
    assert effects(ledger) == {"first": 1}


def test_they_are_released_past_the_opening_and_not_all_at_once(
    workspace: Workspace, ledger: str
) -> None:
    gates.close(workspace.pk, "*bank", seconds=60, reason="maintenance")
    siblings = [
        throttled.s(ledger=ledger).enqueue(workspace=workspace, key=f"k{n}") for n in range(20)
    ]
    due_now(*siblings)
    moves.park_behind_gates(5.0)
    until = Gate.objects.get(name="*bank").closed_until
    wakes = set(Job.objects.filter(workspace=workspace).values_list("wake_at", flat=True))
    assert len(wakes) > 10
    assert all(until <= wake <= until + timedelta(seconds=5) for wake in wakes)


def test_when_it_opens_the_job_goes_on(workspace: Workspace, tmp_path: Path, ledger: str) -> None:
    once = str(tmp_path / "once")
    job = throttled.s(ledger=ledger, fault="rate_limited", once_file=once).enqueue(
        workspace=workspace, key="a"
    )
    run_now(job)
    open_all()
    assert run_now(job).state == "succeeded"


def test_a_gate_made_from_params_stops_one_account_of_one_workspace(
    workspace: Workspace, other: Workspace, ledger: str
) -> None:
    limited = by_account.s(ledger=ledger, account="7", fault="http_429")
    run_now(limited.enqueue(workspace=workspace, key="a"))
    same = by_account.s(ledger=ledger, account="7").enqueue(workspace=workspace, key="b")
    another = by_account.s(ledger=ledger, account="8").enqueue(workspace=workspace, key="c")
    foreign = by_account.s(ledger=ledger, account="7").enqueue(workspace=other, key="d")
    assert run_now(same).state == "queued"
    assert run_now(another).state == "succeeded"
    assert run_now(foreign).state == "succeeded"


def test_a_wait_beyond_the_deadline_ends_the_job_saying_so(
    workspace: Workspace, ledger: str
) -> None:
    job = throttled.s(ledger=ledger, fault="http_429").enqueue(workspace=workspace, key="a")
    Job.objects.filter(pk=job.pk).update(deadline_at=Now() + timedelta(seconds=3))
    run_now(job)
    assert (job.state, job.cause) == ("dead", "deadline")
    assert "deadline" in job.attempts.get().reason
    assert Gate.objects.filter(name="*bank", closed_until__gt=Now()).exists(), "for its siblings"


def test_a_gate_never_opens_earlier_than_it_was_told(workspace: Workspace) -> None:
    gates.close(workspace.pk, "bank", seconds=600, reason="long")
    gates.close(workspace.pk, "bank", seconds=1, reason="short")
    left = Gate.objects.annotate(left=F("closed_until") - Now()).get(name="bank").left
    assert left > timedelta(seconds=500)


def test_two_that_close_a_gate_at_once_leave_it_closed_for_the_longer(
    workspace: Workspace,
) -> None:
    waits = (60.0, 3600.0)
    results = at_once(
        *(lambda s=s: gates.close(workspace.pk, "g", seconds=s, reason=f"{s}") for s in waits)
    )
    assert results == [None, None]
    left = Gate.objects.annotate(left=F("closed_until") - Now()).get(name="g").left
    assert timedelta(seconds=3500) < left <= timedelta(seconds=3600)


@pytest.mark.parametrize("name", ["", "*bank", "x" * 201])
def test_a_throttle_whose_name_cannot_be_a_gate_of_the_workspace_enqueues_nothing(
    workspace: Workspace, ledger: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The star is how the platform's own gates are told apart."""
    monkeypatch.setattr(registry.named(by_account.name), "throttle", lambda **_: name)
    with pytest.raises(ValueError, match="made the gate name"):
        by_account.s(ledger=ledger, account="a").enqueue(workspace=workspace, key="a")
    assert not Job.objects.exists()


def test_an_opened_gate_wakes_its_jobs(workspace: Workspace, ledger: str) -> None:
    gates.close(workspace.pk, "*bank", seconds=600, reason="maintenance")
    job = throttled.s(ledger=ledger).enqueue(workspace=workspace, key="a")
    due_now(job)
    moves.park_behind_gates(5.0)
    assert gates.open_again(workspace.pk, "*bank") is True
    assert [wake.job_id for wake in moves.take_due(100)] == [job.pk]


def test_an_opened_gate_wakes_what_is_marked_as_unstartable_too(
    workspace: Workspace, ledger: str
) -> None:
    gates.close(workspace.pk, "*bank", seconds=600, reason="maintenance")
    job = throttled.s(ledger=ledger).enqueue(workspace=workspace, key="a")
    moves.mark_unstartable(job.pk)
    due_now(job)
    moves.park_behind_gates(5.0)
    assert moves.take_due(100) == []
    assert gates.open_again(workspace.pk, "*bank") is True
    assert [wake.job_id for wake in moves.take_due(100)] == [job.pk]


def test_an_opened_gate_wakes_the_job_that_closed_it(workspace: Workspace, ledger: str) -> None:
    job = throttled.s(ledger=ledger, fault="http_429", once_file=f"{ledger}.once").enqueue(
        workspace=workspace, key="a"
    )
    run_now(job)
    assert gates.open_again(workspace.pk, "*bank") is True
    assert [wake.job_id for wake in moves.take_due(100)] == [job.pk]
    assert runner.execute(job.kind, job.pk)
    job.refresh_from_db()
    assert job.state == "succeeded"


# --- locks


def test_a_busy_lock_defers_and_uses_no_budget(workspace: Workspace, ledger: str) -> None:
    holder = locking.s(ledger=ledger).enqueue(workspace=workspace, key="holder")
    Lock.objects.create(workspace=workspace, name="stack:prod", job=holder, since=Now())
    Job.objects.filter(pk=holder.pk).update(
        state="running", attempt=1, worker="w", lease_until=Now() + timedelta(seconds=60)
    )
    job = run_now(locking.s(ledger=ledger).enqueue(workspace=workspace, key="a"))
    assert (job.state, job.wait_reason, job.failures) == ("queued", "lock", 0)
    assert effects(ledger) == {}


def test_a_lock_is_released_with_its_job(workspace: Workspace, ledger: str) -> None:
    assert run_now(locking.s(ledger=ledger).enqueue(workspace=workspace, key="a")).final
    assert not Lock.objects.exists()


def test_locks_of_two_workspaces_do_not_meet(
    workspace: Workspace, other: Workspace, ledger: str
) -> None:
    kept = locking.s(ledger=ledger, keep=True)
    run_now(kept.enqueue(workspace=workspace, key="a"))
    assert run_now(kept.enqueue(workspace=other, key="a")).state == "succeeded"


def test_a_kept_lock_outlives_its_job_until_forced_open(workspace: Workspace, ledger: str) -> None:
    run_now(locking.s(ledger=ledger, keep=True).enqueue(workspace=workspace, key="a"))
    waiting = locking.s(ledger=ledger).enqueue(workspace=workspace, key="b")
    assert run_now(waiting).wait_reason == "lock"
    force_open(workspace, "stack:prod", actor=SYSTEM, reason="the stack was torn down by hand")
    assert run_now(waiting).state == "succeeded"
    assert AuditEvent.objects.filter(action="lock.force", object_id="stack:prod").exists()


def test_a_lock_of_a_running_job_is_not_forced_open(workspace: Workspace, ledger: str) -> None:
    holder = locking.s(ledger=ledger).enqueue(workspace=workspace, key="holder")
    Lock.objects.create(workspace=workspace, name="stack:prod", job=holder, since=Now())
    Job.objects.filter(pk=holder.pk).update(
        state="running", attempt=1, worker="w", lease_until=Now() + timedelta(seconds=60)
    )
    with pytest.raises(LockHeld):
        force_open(workspace, "stack:prod", actor=SYSTEM, reason="impatience")


def test_an_uncertain_job_holds_its_lock_until_it_is_reconciled(
    workspace: Workspace, ledger: str
) -> None:
    Path(f"{ledger}.answer").write_text("cannot_tell")
    job = locking.s(ledger=ledger, fault="http_502").enqueue(workspace=workspace, key="a")
    run_now(job)
    assert Lock.objects.filter(job=job).exists(), "an intent is open between two attempts"
    assert run_now(job).cause == "uncertain"
    waiting = locking.s(ledger=ledger).enqueue(workspace=workspace, key="b")
    assert run_now(waiting).wait_reason == "lock"
    reconcile(
        job.pk, step="charge_found", outcome="did_not_happen", actor=SYSTEM, reason="looked there"
    )
    assert run_now(waiting).state == "succeeded"


def test_a_retry_takes_over_the_lock_of_its_chain(workspace: Workspace, ledger: str) -> None:
    Path(f"{ledger}.answer").write_text("cannot_tell")
    job = locking.s(ledger=ledger, fault="http_502").enqueue(workspace=workspace, key="a")
    run_now(job)
    assert run_now(job).cause == "uncertain"
    Path(f"{ledger}.answer").unlink()
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason="the provider answers again")
    assert run_now(successor).state == "succeeded"
    assert effects(ledger)["charge_found"] == 1


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_a_lock_has_a_name_that_can_be_stored(
    workspace: Workspace, name: str, kinds_end: None
) -> None:
    @job_kind("scene.locks")
    def locks_it(run: Run) -> None:
        run.lock(name)

    job = run_now(locks_it.s().enqueue(workspace=workspace, key="a", countdown=60))
    assert (job.state, job.cause) == ("dead", "terminal")
    assert "a lock's name has 1 to 200 characters" in job.attempts.get().message


def test_forcing_open_what_nobody_holds_changes_nothing(workspace: Workspace) -> None:
    force_open(workspace, "free", actor=SYSTEM, reason="to be sure")
    assert not AuditEvent.objects.filter(action="lock.force").exists()


# --- shares


def test_one_tenants_burst_leaves_room_for_the_others(
    workspace: Workspace, other: Workspace, ledger: str
) -> None:
    for n in range(30):
        shared.s(ledger=ledger).enqueue(workspace=workspace, key=f"k{n}")
    shared.s(ledger=ledger).enqueue(workspace=other, key="alone")
    taken = [wake.job_id for wake in moves.take_shares("drills.shared", 2, 500)]
    by_workspace = Job.objects.filter(pk__in=taken).values_list("workspace_id", flat=True)
    assert sorted(by_workspace) == sorted([workspace.pk, workspace.pk, other.pk])
    assert moves.take_shares("drills.shared", 2, 500) == []


def test_a_share_that_is_free_again_is_given_on(workspace: Workspace, ledger: str) -> None:
    for n in range(5):
        shared.s(ledger=ledger).enqueue(workspace=workspace, key=f"k{n}")
    for expected in (2, 2, 1, 0):
        taken = moves.take_shares("drills.shared", 2, 500)
        assert len(taken) == expected
        for wake in taken:
            assert runner.execute(wake.kind, wake.job_id)


def test_shared_kinds_are_published_by_the_upkeep_pass_alone(
    workspace: Workspace, ledger: str
) -> None:
    job = shared.s(ledger=ledger).enqueue(workspace=workspace, key="a")
    assert (job.pk, job.kind, job.queue) not in moves.take_due(100, ["drills.shared"])
    assert sweep().published == 1
    job.refresh_from_db()
    assert job.publishes == 1
