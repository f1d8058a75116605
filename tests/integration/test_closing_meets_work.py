"""Closing a workspace while its jobs are at work: neither stops the other, and none is missed."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.db.models.functions import Now

from jobs import moves
from jobs.fence import Fence
from jobs.models import Job
from jobs.states import WaitReason
from jobs.worker import identity
from tests.drills.kinds import noop
from tests.integration.meanwhile import meanwhile
from workspaces import audit
from workspaces.actors import SYSTEM
from workspaces.closing import close
from workspaces.models import AuditEvent, Workspace

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "they left"


def running(workspace: Workspace) -> Fence:
    job = noop.s().enqueue(workspace=workspace, key="k", countdown=3600)
    Job.objects.filter(pk=job.pk).update(run_at=Now())
    claim = moves.claim(job.pk, job.kind, worker=identity(), lease=60, time_limit=60)
    assert claim is not None
    return claim.fence


def test_a_step_that_records_something_does_not_deadlock_with_it(acme: Workspace) -> None:
    fence = running(acme)
    with meanwhile(lambda: close(acme.pk, actor=SYSTEM, reason=WHY)), transaction.atomic():
        assert moves.renew(fence) is not None
        audit.record(
            actor=SYSTEM, action="a", workspace=acme, object_type="job", object_id=fence.job_id
        )
    assert AuditEvent.objects.filter(action="a").count() == 1
    job = Job.objects.get(pk=fence.job_id)
    assert (job.state, job.cancel_requested_at is not None) == ("running", True)


def test_a_job_that_is_put_off_while_it_closes_is_cancelled_all_the_same(acme: Workspace) -> None:
    fence = running(acme)
    with meanwhile(lambda: close(acme.pk, actor=SYSTEM, reason=WHY)), transaction.atomic():
        assert moves.defer(fence, delay=0.0, wait=WaitReason.DEFERRED) is not None
    assert Job.objects.get(pk=fence.job_id).state == "cancelled"
