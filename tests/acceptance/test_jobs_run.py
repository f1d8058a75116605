"""Jobs run on the real stack."""

from __future__ import annotations

from django.db.models import F

from jobs.models import Job
from tests.acceptance.stack import Stack
from tests.acceptance.watching import ended
from tests.drills.kinds import noop
from workspaces.models import Workspace


def test_an_enqueued_job_succeeds(stack: Stack, workspace: Workspace) -> None:
    job = ended(noop.s().enqueue(workspace=workspace, key="now"))
    assert (job.state, job.attempt, job.failures) == ("succeeded", 1, 0)


def test_a_delayed_job_runs_when_it_is_due(stack: Stack, workspace: Workspace) -> None:
    job = ended(noop.s().enqueue(workspace=workspace, key="later", countdown=2))
    assert job.state == "succeeded"
    assert job.publishes == 1
    assert Job.objects.filter(pk=job.pk, started_at__gte=F("run_at")).exists()
