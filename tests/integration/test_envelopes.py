"""Failed envelopes and faults of upkeep are kept, shown to read, and forgotten after a week."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from celery import current_app
from django.db import DatabaseError, connection
from django.db.models.functions import Now
from django.urls import reverse
from django_celery_results.models import TaskResult

from config.doctor.answer import Level
from jobs import beat, sweep
from jobs.beat import UpkeepScheduler
from jobs.models import Job
from tests.integration.console_scene import at_console
from tests.integration.doctor.asking import ago, asked, queued
from workspaces.models import Workspace
from workspaces.permissions import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

LIST = "admin:django_celery_results_taskresult_changelist"
PAGE = "admin:django_celery_results_taskresult_change"


def envelope(**other: object) -> TaskResult:
    """One as Celery stores it."""
    row = {
        "task_id": "3c8e34c6-42d9-491a-b14d-b81b0a29e11e",
        "task_name": "drills.noop",
        "task_args": "\"('01a227d1-c0d7-7a61-8537-a28d2ce438e7',)\"",
        "status": "FAILURE",
        "worker": "worker@a",
        "result": json.dumps(
            {"exc_type": "WorkerLostError", "exc_message": ["signal 9"], "exc_module": "billiard"}
        ),
        "traceback": "Traceback <b>of</b> redis://app:hunter22-canary@broker",
    }
    return TaskResult.objects.create(**{**row, **other})


def test_the_console_shows_what_failed_and_hides_secrets(acme: Workspace) -> None:
    row = envelope()
    ops = at_console("ops", Role.VIEWER, None)
    listed = ops.get(reverse(LIST)).content.decode()
    assert "drills.noop" in listed
    assert "WorkerLostError: signal 9" in listed
    shown = ops.get(reverse(PAGE, args=[row.pk])).content.decode()
    assert "01a227d1-c0d7-7a61-8537-a28d2ce438e7" in shown
    assert "Traceback &lt;b&gt;of&lt;/b&gt;" in shown
    assert "canary" not in shown


def test_what_is_no_result_of_celerys_is_shown_as_it_is(acme: Workspace) -> None:
    envelope(task_id="odd", task_name=None, task_args=None, result="no JSON, password=canary")
    listed = at_console("ops", Role.VIEWER, None).get(reverse(LIST)).content.decode()
    assert "unknown to the worker" in listed
    assert "no JSON, password=[hidden]" in listed


@pytest.mark.parametrize("role", [Role.ADMIN, Role.VIEWER])
def test_members_of_one_workspace_do_not_read_the_platforms_failures(
    acme: Workspace, role: Role
) -> None:
    row = envelope()
    ana = at_console("ana", role, acme)
    assert ana.get(reverse(LIST)).status_code == 403
    assert ana.get(reverse(PAGE, args=[row.pk])).status_code in (403, 404)


def test_nobody_changes_or_deletes_them(acme: Workspace) -> None:
    row = envelope()
    root = at_console("root", Role.ADMIN, None)
    for verb in ("change", "delete"):
        address = reverse(f"admin:django_celery_results_taskresult_{verb}", args=[row.pk])
        assert root.post(address, {"post": "yes"}).status_code == 403
    assert root.get(reverse("admin:django_celery_results_taskresult_add")).status_code == 403
    assert TaskResult.objects.count() == 1


def broken(*_arguments: object) -> bool:
    """Work on a row that always fails."""
    raise ValueError("password=hunter22-canary is odd")


def test_a_fault_on_a_row_is_kept_once_and_found_by_the_doctor(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued(acme, deadline_at=ago(seconds=1))
    assert asked("upkeep.faults").level is Level.OK
    monkeypatch.setattr(sweep, "_bury_late", broken)
    assert [sweep.sweep().faults for _ in range(3)] == [1, 1, 1]
    row = TaskResult.objects.get()
    assert (row.task_name, row.status) == ("upkeep.broken", "FAILURE")
    assert "ValueError" in row.result
    assert "canary" not in row.result + row.traceback
    finding = asked("upkeep.faults")
    assert (finding.level, finding.rows) == (Level.WARN, ("upkeep.broken",))
    assert asked("envelopes.failed").level is Level.OK


def test_a_failed_pass_is_kept_and_ends_no_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    def sweep_fails() -> None:
        raise RuntimeError("no pass today")

    monkeypatch.setattr(beat, "sweep", sweep_fails)
    scheduler = UpkeepScheduler(app=current_app, lazy=True)
    assert scheduler.tick() == beat.INTERVAL
    assert TaskResult.objects.get().task_name == "upkeep.pass"


def test_a_fault_that_cannot_be_kept_ends_no_pass(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queued(acme, deadline_at=ago(seconds=1))
    monkeypatch.setattr(sweep, "_undelivered", lambda: [1])
    monkeypatch.setattr(sweep, "_deliver", broken)

    def refuse(execute: object, sql: str, *rest: object) -> object:
        if "taskresult" in sql:
            raise DatabaseError("no such table")
        return execute(sql, *rest)  # type: ignore[operator]

    with connection.execute_wrapper(refuse):
        assert sweep.sweep().buried == 1
    assert Job.objects.get(pk=job.pk).cause == "deadline"


def test_beat_forgets_old_envelopes_once_an_hour() -> None:
    envelope(task_id="young")
    old = envelope(task_id="old")
    TaskResult.objects.filter(pk=old.pk).update(date_done=Now() - timedelta(days=8))
    scheduler = UpkeepScheduler(app=current_app, lazy=True)
    scheduler.tick()
    assert list(TaskResult.objects.values_list("task_id", flat=True)) == ["young"]
    TaskResult.objects.update(date_done=Now() - timedelta(days=8))
    scheduler.tick()
    assert TaskResult.objects.count() == 1


def test_the_doctor_counts_failed_envelopes_and_names_their_jobs() -> None:
    assert asked("envelopes.failed").level is Level.OK
    envelope()
    finding = asked("envelopes.failed")
    assert finding.level is Level.WARN
    assert finding.command == "manage.py job show 01a227d1-c0d7-7a61-8537-a28d2ce438e7"
