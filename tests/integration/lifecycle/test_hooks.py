"""The lifecycle moves with its own job, only from where it may stand, and decides about retries."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.db.models.functions import Now

from examples.registry.control import RegistryControl
from jobs.errors import Refused
from jobs.models import Job
from jobs.models.ids import uuid7
from jobs.recovery.cancel import cancel
from jobs.recovery.retry import retry
from provisioning.lifecycle.kinds import follow
from provisioning.lifecycle.models import Lifecycle
from tests.integration.lifecycle.looking import (
    EACH_ONCE,
    effects,
    finished,
    job_of,
    lifecycle_of,
    provisioned,
    requested,
    retried,
    steps,
)
from workspaces.actors import SYSTEM
from workspaces.models import Workspace


@pytest.fixture
def job(workspace: Workspace) -> Job:
    """A cancelled job of a workspace that stands at provision_failed; nothing ever ran."""
    return cancel(requested(workspace).pk, actor=SYSTEM, reason="a test")


def resume(job: Job) -> Job:
    return retry(job.pk, mode="resume", actor=SYSTEM, reason="mended")


def test_a_cancelled_job_fails_its_workspace_and_can_be_retried(
    job: Job, workspace: Workspace
) -> None:
    failed = lifecycle_of(workspace)
    successor = resume(job)
    following = lifecycle_of(workspace)

    assert job.state == "cancelled"
    assert (failed.state, failed.job_id) == ("provision_failed", job.pk)
    assert (following.state, following.job_id) == ("provisioning", successor.pk)
    assert finished(successor).state == "succeeded"
    assert lifecycle_of(workspace).state == "ready"


@pytest.mark.parametrize("mode", ["resume", "restart"])
@pytest.mark.parametrize("state", ["provisioning", "ready"])
def test_a_retry_is_refused_unless_the_workspace_has_failed(
    job: Job, workspace: Workspace, state: str, mode: str
) -> None:
    ready_at = Now() if state == "ready" else None
    Lifecycle.objects.update(state=state, ready_at=ready_at)

    with pytest.raises(Refused) as refused:
        retry(job.pk, mode=mode, actor=SYSTEM, reason="mended")

    assert refused.value.code == "not_provision_failed"
    assert state in refused.value.sentence
    assert Job.objects.count() == 1
    assert lifecycle_of(workspace).state == state


def test_a_retry_is_refused_where_the_workspace_follows_another_job(
    job: Job, workspace: Workspace
) -> None:
    Lifecycle.objects.update(job_id=uuid7())

    with pytest.raises(Refused) as refused:
        resume(job)

    assert refused.value.code == "not_its_job"
    assert lifecycle_of(workspace).state == "provision_failed"


def test_an_end_that_is_told_twice_or_late_moves_nothing(job: Job, workspace: Workspace) -> None:
    successor = resume(job)

    follow(job, "cancelled", None)
    follow(job, "dead", None)

    following = lifecycle_of(workspace)
    assert (following.state, following.job_id) == ("provisioning", successor.pk)


def test_of_two_retries_at_once_one_makes_the_successor(job: Job, workspace: Workspace) -> None:
    def once(_: int) -> tuple[object, bool]:
        try:
            successor = resume(job)
            return successor.pk, successor.created
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(once, range(8)))

    assert len({pk for pk, _ in made}) == 1
    assert sorted(created for _, created in made) == [False] * 7 + [True]
    assert lifecycle_of(workspace).job_id == made[0][0]


@pytest.mark.sqlite
def test_a_restart_registers_under_a_new_key_and_creates_nothing_again(
    workspace: Workspace, control: RegistryControl
) -> None:
    control.down()
    job = provisioned(workspace)
    control.up()

    successor = retried(job, "restart")

    assert successor.state == "succeeded"
    assert set(steps(successor).values()) == {"done"}
    assert len({asked["key"] for asked in control.requests()}) == 2
    assert effects(workspace) == EACH_ONCE


def test_a_job_whose_workspace_follows_another_opens_nothing(workspace: Workspace) -> None:
    job = requested(workspace)
    Lifecycle.objects.update(job_id=uuid7())

    finished(job)

    assert (job.state, job.cause) == ("dead", "terminal")
    assert lifecycle_of(workspace).state == "provisioning"


def test_the_newest_job_is_the_one_that_is_followed(job: Job, workspace: Workspace) -> None:
    again = cancel(resume(job).pk, actor=SYSTEM, reason="once more")

    assert job_of(lifecycle_of(workspace)) == again
    assert lifecycle_of(workspace).state == "provision_failed"
