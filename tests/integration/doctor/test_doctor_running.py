"""Each way in which a running job can be stuck is found, with its code and what helps."""

from __future__ import annotations

import pytest
from django.conf import settings

from config.doctor.answer import Level
from jobs.models import Job
from tests.integration.doctor.asking import ago, ahead, asked, is_about, is_well, running
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def test_its_lease_ran_out_and_nobody_reaped_it(acme: Workspace) -> None:
    job = running(acme, lease_until=ago(seconds=30))
    is_well("jobs.lease_expired")
    Job.objects.filter(pk=job.pk).update(lease_until=ago(seconds=90))
    is_about(asked("jobs.lease_expired"), Level.FAIL, job, "manage.py sweep")


def test_past_its_hard_limit_and_still_renewed(acme: Workspace) -> None:
    job = running(acme, kill_at=ago(seconds=5), lease_until=ahead(seconds=30))
    is_well("jobs.past_limit")
    Job.objects.filter(pk=job.pk).update(kill_at=ago(seconds=15))
    level = Level.WARN if settings.FIREDOOR_INLINE else Level.FAIL
    is_about(asked("jobs.past_limit"), level, job, "manage.py job show ID")


def test_asked_to_stop_long_ago(acme: Workspace) -> None:
    job = running(acme, cancel_requested_at=ago(minutes=14))
    is_well("jobs.cancel_ignored")
    Job.objects.filter(pk=job.pk).update(cancel_requested_at=ago(minutes=16))
    is_about(asked("jobs.cancel_ignored"), Level.WARN, job, "manage.py job show ID")
