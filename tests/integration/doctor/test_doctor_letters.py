"""Dead letters, alerts and events that nobody hears of are found."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db.models.functions import Now

from alerts.models import Alert, AlertMember
from config.doctor.answer import Level
from jobs.events import MAX_TRIES
from jobs.models import Event, Job
from jobs.recovery.reconcile import reconcile
from jobs.recovery.retry import retry
from tests.integration.console_scene import dead, uncertain
from tests.integration.doctor.asking import ago, asked, is_about, is_well
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def test_uncertain_until_it_is_reconciled(acme: Workspace, tmp_path: Path) -> None:
    is_well("jobs.uncertain")
    job = uncertain(acme, tmp_path)
    helps = "manage.py job reconcile ID --step STEP --outcome happened --reason TEXT"
    is_about(asked("jobs.uncertain"), Level.WARN, job, helps)
    reconcile(
        job.pk,
        step="charge",
        outcome="happened",
        output={"ok": True},
        actor=SYSTEM,
        reason="it is in the ledger",
    )
    is_well("jobs.uncertain")


def test_of_a_version_that_this_code_has_not(acme: Workspace, tmp_path: Path) -> None:
    job = dead(acme, tmp_path)
    is_well("jobs.version_changed")
    Job.objects.filter(pk=job.pk).update(version=7)
    is_about(asked("jobs.version_changed"), Level.WARN, job, "manage.py job show ID")


def test_dead_and_in_no_alert(acme: Workspace, tmp_path: Path) -> None:
    job = dead(acme, tmp_path)
    Job.objects.filter(pk=job.pk).update(finished_at=ago(minutes=2))
    is_well("alerts.missing")
    AlertMember.objects.all().delete()
    is_about(asked("alerts.missing"), Level.FAIL, job, "manage.py sweep")
    retry(job.pk, mode="resume", actor=SYSTEM, reason="mended")
    is_well("alerts.missing")


def test_an_alert_that_outlives_its_dead_letters(acme: Workspace, tmp_path: Path) -> None:
    job = dead(acme, tmp_path)
    Alert.objects.update(last_at=ago(minutes=2))
    is_well("alerts.undead")
    Job.objects.filter(pk=job.pk).update(resolved_at=Now())
    finding = asked("alerts.undead")
    helps = "manage.py shell -c \"from alerts.resolve import settle; settle('ID')\""
    is_about(finding, Level.WARN, job, helps)
    assert Alert.objects.get().title in finding.sentence


def test_events_that_wait_and_events_that_were_given_up(acme: Workspace, tmp_path: Path) -> None:
    dead(acme, tmp_path)
    is_well("events.undelivered")
    fault = "webhooks.receivers.on_death: KeyError: token=canary-5f1d0c77"
    Event.objects.filter(type="job.dead").update(
        delivered_at=None, tries=3, error=fault, created_at=ago(minutes=2)
    )
    finding = asked("events.undelivered")
    assert (finding.level, finding.command) == (Level.WARN, "manage.py sweep")
    assert "1 events" in finding.sentence
    assert "webhooks.receivers.on_death: KeyError" in finding.sentence
    assert "canary" not in finding.sentence
    is_well("events.exhausted")
    Event.objects.filter(type="job.dead").update(tries=MAX_TRIES)
    finding = asked("events.exhausted")
    assert finding.level is Level.FAIL
    assert "update(tries=0)" in finding.command
    is_well("events.undelivered")
