"""What the upkeep pass does with jobs whose workers, messages or moments are lost."""

from datetime import timedelta

import pytest
from django.db.models import F
from django.db.models.functions import Now

from jobs import moves
from jobs.models import Event, Job, Step, Upkeep
from jobs.sweep import UPKEEP, Pass, sweep
from tests.drills.kinds import kills_itself, noop, once, repeatable, shared
from tests.integration.kernel.scene import attempt, outcomes, passes, seen, started
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True)]


def reap() -> Pass:
    return sweep(reap_now=True)


def test_a_job_whose_lease_ran_out_is_lost_and_runs_again(
    workspace: Workspace, ledger: str
) -> None:
    job = started(repeatable.s(ledger=ledger).enqueue(workspace=workspace, key="a"))
    assert reap().reaped == 0, "its lease holds"
    passes(job, 61)
    assert reap().reaped == 1
    assert (seen(job).state, job.wait_reason, job.losses, job.failures) == ("queued", "retry", 1, 0)
    assert outcomes(job) == ["lost"]
    assert attempt(job).state == "succeeded"


def test_losing_workers_has_a_budget_of_its_own(workspace: Workspace, ledger: str) -> None:
    job = kills_itself.s(ledger=ledger).enqueue(workspace=workspace, key="a")
    for _ in range(3):
        passes(started(job), 61)
        reap()
    assert (seen(job).cause, job.losses, job.failures) == ("lost", 3, 0)
    assert outcomes(job) == ["lost"] * 3


def test_an_attempt_that_outlived_its_hard_limit_timed_out_and_failed(
    workspace: Workspace, ledger: str
) -> None:
    job = started(
        repeatable.s(ledger=ledger).enqueue(workspace=workspace, key="a"), lease=60, limit=30
    )
    passes(job, 61)
    reap()
    assert (seen(job).failures, job.losses, outcomes(job)) == (1, 0, ["timed_out"])


def test_a_lost_job_with_an_open_step_is_asked_about_and_else_uncertain(
    workspace: Workspace, ledger: str
) -> None:
    job = started(once.s(ledger=ledger).enqueue(workspace=workspace, key="a"))
    opened(job)
    passes(job, 61)
    reap()
    assert seen(job).state == "queued", "a loss is in its budget; the next attempt finds the intent"
    assert attempt(job).cause == "uncertain"


def opened(job: Job) -> None:
    Step.objects.create(
        job=job,
        name="charge",
        effect="once",
        state="started",
        attempt=job.attempt,
        intent_at=Now(),
        opens_at=Now(),
    )


def test_uncertain_wins_over_a_used_up_budget(workspace: Workspace, ledger: str) -> None:
    job = started(once.s(ledger=ledger).enqueue(workspace=workspace, key="a"))
    opened(job)
    Job.objects.filter(pk=job.pk).update(losses=99)
    passes(job, 61)
    reap()
    assert (seen(job).cause, outcomes(job)) == ("uncertain", ["lost"])


def test_uncertain_wins_over_a_passed_deadline(workspace: Workspace, ledger: str) -> None:
    job = once.s(ledger=ledger).enqueue(workspace=workspace, key="a")
    opened(job)
    passes(job, 25 * 3600)
    assert reap().buried == 1
    assert seen(job).cause == "uncertain"


def test_uncertain_wins_over_a_cancel(workspace: Workspace, ledger: str) -> None:
    job = once.s(ledger=ledger).enqueue(workspace=workspace, key="a")
    opened(job)
    moves.cancel_queued(job.pk)
    assert (seen(job).state, job.cause) == ("dead", "uncertain")


def test_a_job_past_its_deadline_is_buried_unrun(workspace: Workspace) -> None:
    job = noop.s().enqueue(workspace=workspace, key="a")
    passes(job, 25 * 3600)
    assert attempt(job).attempt == 0
    assert reap().buried == 1
    assert (seen(job).cause, job.attempts.count()) == ("deadline", 0)


def test_a_pass_after_a_pause_gives_every_running_job_one_more_lease(
    workspace: Workspace, ledger: str
) -> None:
    sweep()
    job = started(repeatable.s(ledger=ledger).enqueue(workspace=workspace, key="a"))
    passes(job, 61)
    Upkeep.objects.filter(name=UPKEEP).update(passed_at=Now() - timedelta(seconds=31))
    assert sweep().graced
    assert seen(job).state == "running"
    left = Job.objects.annotate(left=F("lease_until") - Now()).get(pk=job.pk).left
    assert timedelta(seconds=50) < left <= timedelta(seconds=60)
    passes(job, 61)
    assert sweep().reaped == 1


def test_a_kind_that_nobody_knows_waits_an_hour_for_its_code(workspace: Workspace) -> None:
    job = noop.s().enqueue(workspace=workspace, key="a")
    Job.objects.filter(pk=job.pk).update(kind="drills.of_tomorrow", wake_at=Now())
    sweep()
    assert (seen(job).state, job.wait_reason) == ("queued", "unstartable")
    passes(job, 3500)
    assert sweep().buried == 0
    passes(job, 200)
    assert sweep().buried == 1
    assert seen(job).cause == "unstartable"


def test_params_that_this_code_refuses_wait_for_other_code(
    workspace: Workspace, ledger: str
) -> None:
    job = repeatable.s(ledger=ledger).enqueue(workspace=workspace, key="a")
    Job.objects.filter(pk=job.pk).update(params={"ledger": ledger, "of_tomorrow": 1})
    attempt(job)
    assert (job.state, job.wait_reason, job.failures) == ("queued", "unstartable", 0)
    since = job.wait_since
    attempt(job)
    assert job.wait_since == since, "an hour is counted from the first refusal"
    Job.objects.filter(pk=job.pk).update(params={"ledger": ledger})
    assert attempt(job).state == "succeeded"


@pytest.mark.parametrize("kind", ["plain", "with a share"])
def test_a_wake_is_repeated_later_and_later(workspace: Workspace, kind: str) -> None:
    if kind == "plain":
        job = noop.s().enqueue(workspace=workspace, key="a")
    else:
        job = shared.s(ledger="x").enqueue(workspace=workspace, key="a")
    waits = []
    for _ in range(8):
        Job.objects.filter(pk=job.pk).update(wake_at=Now())
        taken = (
            moves.take_due(10)
            if kind == "plain"
            else moves.take_shares(job.kind, share=2, limit=10)
        )
        assert taken == [(job.pk, job.kind, job.queue)]
        left = Job.objects.annotate(left=F("wake_at") - Now()).get(pk=job.pk).left
        waits.append(round(left.total_seconds()))
    assert waits == [30, 60, 120, 240, 480, 960, 1800, 1800]


def test_one_bad_row_does_not_stop_the_rest(
    workspace: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [
        started(repeatable.s(ledger=ledger).enqueue(workspace=workspace, key=key)) for key in "abc"
    ]
    for job in jobs:
        passes(job, 61)
    real = moves.retry_later

    def breaks_for_one(fence, record, **words):  # type: ignore[no-untyped-def]
        if fence.job_id == jobs[1].pk:
            raise ValueError("a bad row")
        return real(fence, record, **words)

    monkeypatch.setattr(moves, "retry_later", breaks_for_one)
    done = reap()
    assert (done.reaped, done.faults) == (2, 1)
    assert [seen(job).state for job in jobs] == ["queued", "running", "queued"]


def test_an_event_that_its_receiver_refused_is_delivered_again(workspace: Workspace) -> None:
    event = Event.objects.create(
        workspace=workspace, type="nobody.listens", subject="x", data={}, tries=1, error="before"
    )
    assert sweep().delivered == 1
    event.refresh_from_db()
    assert (event.tries, event.error) == (2, "")
    assert event.delivered_at is not None


def test_a_worker_that_is_gone_is_not_waited_for_with_did_not_happen(
    workspace: Workspace, ledger: str
) -> None:
    from tests.drills.kinds import not_happened

    job = started(not_happened.s(ledger=ledger).enqueue(workspace=workspace, key="a"))
    Step.objects.create(
        job=job, name="charge_lost", effect="once", state="started", attempt=1,
        intent_at=Now(), opens_at=Now(),
    )  # fmt: skip
    passes(job, 61)
    reap()
    attempt(job)
    assert (job.state, job.wait_reason) == ("queued", "deferred"), "its writer may still act"
    left = job.run_at - job.attempts.get(number=1).kill_at
    assert abs(left) < timedelta(seconds=2)
    job.attempts.update(kill_at=Now() - timedelta(seconds=1))
    assert attempt(job).state == "succeeded"
