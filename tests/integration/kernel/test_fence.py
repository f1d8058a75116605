"""A worker writes only what is still its own."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from jobs import moves
from jobs.fence import AttemptRecord, Fence, Standing
from jobs.models import Event, Job, Step
from jobs.states import AttemptOutcome, Cause, WaitReason
from jobs.testing import leave_for_dead, lose_lease
from tests.drills import faults
from tests.drills.kinds import charge_found, noop, reconciled, repeatable
from tests.drills.ledger import effects
from tests.integration.kernel.scene import attempt, seen, started
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

DONE = AttemptRecord(AttemptOutcome.SUCCEEDED)
FAILED = AttemptRecord(AttemptOutcome.FAILED)


def held(workspace: Workspace) -> tuple[Job, Fence]:
    job = started(noop.s().enqueue(workspace=workspace, key="a", countdown=60))
    return job, Fence(job.pk, job.attempt, job.worker, lease=60.0)


def _writes(fence: Fence) -> dict[str, object]:
    """Every statement a worker can send, and what came back."""
    words = {"name": "s", "effect": "once", "boundary": ""}
    return {
        "renew": moves.renew(fence),
        "progress": moves.progress(fence, '{"fraction": 1}'),
        "begin": moves.begin_step(fence, remembers=0.0, **words),
        "finish": moves.finish_step(fence, output="1", **words),
        "deny": moves.deny_step(fence, name="s"),
        "succeed": moves.succeed(fence, result="1", record=DONE),
        "end": moves.end(fence, FAILED, cause=Cause.TERMINAL),
        "retry": moves.retry_later(fence, FAILED, delay=1.0),
        "defer": moves.defer(fence, delay=1.0, wait=WaitReason.DEFERRED),
    }


@pytest.mark.parametrize("stale", ["attempt", "worker", "final"])
def test_a_stale_worker_writes_nothing(workspace: Workspace, stale: str) -> None:
    job, fence = held(workspace)
    if stale == "attempt":
        Job.objects.filter(pk=job.pk).update(attempt=2)
    elif stale == "worker":
        Job.objects.filter(pk=job.pk).update(worker="another")
    else:
        moves.succeed(fence, result="true", record=DONE)
    before = Job.objects.filter(pk=job.pk).values().get()
    assert set(_writes(fence).values()) == {None}
    assert Job.objects.filter(pk=job.pk).values().get() == before
    assert not Step.objects.exists()


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_what_is_written_tells_of_a_cancel_and_a_passed_deadline(
    workspace: Workspace, asked: bool, late: bool
) -> None:
    job, fence = held(workspace)
    Job.objects.filter(pk=job.pk).update(
        cancel_requested_at=Now() if asked else None,
        deadline_at=Now() - timedelta(seconds=1) if late else None,
    )
    told = Standing(cancel_requested=asked, deadline_passed=late)
    words = {"name": "s", "effect": "once", "boundary": ""}
    assert moves.renew(fence) == told
    assert moves.begin_step(fence, remembers=0.0, **words) == told
    assert moves.finish_step(fence, output="1", **words) == told


def test_an_expired_lease_that_nobody_reaped_is_still_mine(workspace: Workspace) -> None:
    job, fence = held(workspace)
    Job.objects.filter(pk=job.pk).update(lease_until="2020-01-01T00:00:00Z")
    assert moves.succeed(fence, result="1", record=DONE) is not None
    assert seen(job).result == 1


def test_a_worker_writes_until_it_is_killed_and_for_a_lease_at_least(
    workspace: Workspace,
) -> None:
    """The fence decides: while the database is away, giving up earlier would lose an outcome."""
    patience = []
    for key, limit in (("a", 900.0), ("b", 1.0)):
        job = noop.s().enqueue(workspace=workspace, key=key, countdown=60)
        Job.objects.filter(pk=job.pk).update(run_at=Now())
        claim = moves.claim(job.pk, job.kind, worker="w", lease=60.0, time_limit=limit)
        assert claim is not None
        patience.append(round(claim.patience / 60))
    assert patience == [15, 1]


def test_the_same_step_write_sent_twice_is_mine_both_times(workspace: Workspace) -> None:
    _job, fence = held(workspace)
    for output in ("1", "2"):
        assert moves.finish_step(fence, name="s", effect="repeatable", boundary="", output=output)
    assert Step.objects.get().output == 1, "the first output written stays"


def test_only_one_of_two_claims_wins(workspace: Workspace) -> None:
    job = noop.s().enqueue(workspace=workspace, key="a", countdown=60)
    Job.objects.filter(pk=job.pk).update(run_at=Now())
    words = {"lease": 60.0, "time_limit": 900.0}
    assert moves.claim(job.pk, kind=job.kind, worker="one", **words) is not None
    assert moves.claim(job.pk, kind=job.kind, worker="two", **words) is None


def test_a_worker_that_lost_its_lease_leaves_the_job_to_the_other(
    workspace: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = repeatable.s(ledger=ledger, fault="lose").enqueue(
        workspace=workspace, key="a", countdown=60
    )
    monkeypatch.setitem(faults.FAULTS, "lose", lambda: lose_lease(job) and None)
    attempt(job)
    assert (job.state, job.attempt, job.result) == ("running", 2, None)
    assert list(job.attempts.values_list("outcome", flat=True)) == ["lost"]
    assert effects(ledger) == {"first": 1}, "the second step was not begun"


def test_what_a_late_worker_brings_is_kept_and_believed(workspace: Workspace, ledger: str) -> None:
    job = started(reconciled.s(ledger=ledger).enqueue(workspace=workspace, key="a", countdown=60))
    fence = Fence(job.pk, job.attempt, job.worker, lease=60.0)
    moves.begin_step(fence, name=charge_found.name, effect="once", boundary="", remembers=0.0)
    moves.end(
        fence, AttemptRecord(AttemptOutcome.LOST), cause=None, own=False
    )  # somebody reaped it: an open intent makes that uncertain
    assert seen(job).cause == "uncertain"
    assert moves.keep_late_output(fence, name=charge_found.name, output='{"late": true}')
    assert not moves.keep_late_output(fence, name=charge_found.name, output='{"later": true}')
    Job.objects.filter(pk=job.pk).update(state="queued", cause="", finished_at=None)
    assert attempt(job).result == {"charge": {"late": True}}
    assert effects(ledger) == {"second": 1}, "nobody was asked and nothing was sent"


def test_events_of_a_job_come_in_order(workspace: Workspace, ledger: str) -> None:
    job = attempt(
        repeatable.s(ledger=ledger, fault="terminal").enqueue(workspace=workspace, key="a")
    )
    types = Event.objects.filter(subject=str(job.pk)).order_by("id").values_list("type", flat=True)
    assert list(types) == ["job.dead"]


@pytest.mark.parametrize("lose", [leave_for_dead, lose_lease])
def test_where_a_test_takes_a_job_away_nothing_that_is_due_runs(
    workspace: Workspace, lose: Callable[[Job], object]
) -> None:
    """On a slow machine the retry itself is due by then, and its scenario would not see it run."""
    due = noop.s().enqueue(workspace=workspace, key="due", countdown=60)
    job, _ = held(workspace)
    Job.objects.filter(pk=due.pk).update(run_at=Now())
    lose(job)
    due.refresh_from_db()
    assert due.attempt == 0
