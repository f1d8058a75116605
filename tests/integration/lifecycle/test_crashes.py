"""A worker is killed in the middle of an apply: nobody applies again on a guess."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db.models.functions import Now

from alerts.models import Alert
from jobs.errors import ReconcileRequired
from jobs.models import Job
from jobs.recovery.reconcile import reconcile
from jobs.recovery.retry import retry
from jobs.sweep import sweep
from provisioning.terraform.fate import group_is_empty
from tests.integration.lifecycle.looking import (
    EACH_ONCE,
    attempted,
    effects,
    finished,
    lifecycle_of,
    outcomes,
    requested,
    retried,
    steps,
    words,
)
from tests.integration.lifecycle.workers import (
    DIES_BEFORE_THE_START,
    has_ended,
    has_intent,
    kill_all_of,
    reaped,
    run_of,
    worker,
)
from tests.support.terraform import in_flight
from tests.waiting import wait_until
from workspaces.actors import SYSTEM
from workspaces.models import Workspace


@pytest.fixture
def hold(root: Path) -> Path:
    """While this file exists the second resource waits."""
    file = root / "hold"
    file.touch()
    return file


@pytest.fixture
def job(workspace: Workspace, hold: Path) -> Job:
    """A job whose worker was killed while Terraform was creating the second resource."""
    job = requested(workspace, pause_at="database", pause_while=str(hold))
    with worker(job) as process:
        in_flight(run_of(job), "database")
        process.kill()
        process.wait()
    return reaped(job)


def test_an_apply_that_outlives_its_worker_is_waited_for_and_believed(
    job: Job, workspace: Workspace, hold: Path
) -> None:
    waiting = attempted(job)
    stood = (waiting.state, waiting.wait_reason, waiting.failures)
    hold.unlink()
    wait_until(lambda: has_ended(run_of(job)), 60, "the apply has ended")

    finished(job)

    assert stood == ("queued", "deferred", 0)
    assert job.state == "succeeded"
    assert outcomes(job) == ["lost", "succeeded"]
    assert effects(workspace) == EACH_ONCE
    assert lifecycle_of(workspace).state == "ready"


def test_an_apply_that_is_gone_without_a_trace_is_uncertain_until_somebody_looked(
    job: Job, workspace: Workspace, hold: Path
) -> None:
    kill_all_of(run_of(job))
    wait_until(lambda: group_is_empty(run_of(job)), 20, "nothing of the apply lives")

    finished(job)

    assert (job.state, job.cause) == ("dead", "uncertain")
    assert lifecycle_of(workspace).state == "provision_failed"
    assert Alert.objects.get().severity == "critical"
    assert words(job)["apply"] == "asks first"
    with pytest.raises(ReconcileRequired):
        retry(job.pk, mode="restart", actor=SYSTEM, reason="impatience")
    assert effects(workspace) == {"network": 1}

    reconcile(
        job.pk, step="apply", outcome="did_not_happen", actor=SYSTEM, reason="the rest is not there"
    )
    hold.unlink()
    successor = retried(job)

    assert successor.state == "succeeded"
    assert effects(workspace) == EACH_ONCE
    assert lifecycle_of(workspace).state == "ready"


def test_a_resume_in_doubt_asks_again_and_applies_nothing(
    job: Job, workspace: Workspace, hold: Path
) -> None:
    kill_all_of(run_of(job))
    wait_until(lambda: group_is_empty(run_of(job)), 20, "nothing of the apply lives")
    finished(job)
    hold.unlink()

    successor = retried(job)

    assert (successor.state, successor.cause) == ("dead", "uncertain")
    assert steps(successor) == {"apply": "started", "plan": "done"}
    assert effects(workspace) == {"network": 1}


def test_a_resume_believes_an_apply_that_ended_after_its_job_had_died(
    job: Job, workspace: Workspace, hold: Path
) -> None:
    """The first job gives up while the apply goes on; its successor asks about that apply."""
    Job.objects.filter(pk=job.pk).update(deadline_at=Now())
    sweep()
    job.refresh_from_db()
    hold.unlink()
    wait_until(lambda: has_ended(run_of(job)), 60, "the apply has ended")

    successor = retried(job)

    assert (job.state, job.cause) == ("dead", "uncertain")
    assert successor.state == "succeeded"
    assert effects(workspace) == EACH_ONCE


def test_an_apply_that_was_never_started_is_applied_once(workspace: Workspace) -> None:
    job = requested(workspace)
    with worker(job, before=DIES_BEFORE_THE_START) as process:
        process.wait(60)
    in_doubt = has_intent(job)

    finished(reaped(job))

    assert in_doubt
    assert job.state == "succeeded"
    assert outcomes(job) == ["lost", "succeeded"]
    assert effects(workspace) == EACH_ONCE
