"""The doctor at a real installation: nothing to find when all is well, and what breaks is found."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs.models import Job
from tests.acceptance.stack import ROOT, Stack, children
from tests.acceptance.watching import ended, holding, paused, process_in
from tests.drills.held import held
from tests.drills.kinds import noop
from tests.waiting import wait_until
from workspaces.models import Workspace


def examined(stack: Stack, *only: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings that are not ok."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "worker_doctor", "--json", *only],
        env=stack.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count("\n") == 1, done.stderr
    found = json.loads(done.stdout)["findings"]
    assert found
    return done.returncode, {each["code"]: each for each in found if each["level"] != "ok"}


def settled(stack: Stack) -> None:
    """Forget what earlier tests left, and wait until beat makes passes and the worker answers."""
    stack.manage("shell", "-v0", "-c", _FORGET)
    wait_until(lambda: examined(stack, "upkeep.age", "workers.answer")[0] == 0, 60)


_FORGET = """
from alerts.models import Alert, AlertMember
from django_celery_results.models import TaskResult
from jobs.models import Attempt, Event, Job, Lock, Step
for model in (TaskResult, AlertMember, Alert, Event, Lock, Step, Attempt):
    model.objects.all().delete()
Job.objects.all()._raw_delete("default")
"""


@pytest.mark.timeout(240)
def test_nothing_is_found_when_all_is_well_and_what_breaks_is_found(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    settled(stack)
    with holding(ledger):
        job = held.s(ledger=ledger).enqueue(workspace=workspace, key="runs")
        process_in(ledger, "work")
        assert examined(stack) == (0, {})
    ended(job)
    stack.worker.stop()
    code, found = examined(stack, "workers", "queues")
    assert (code, set(found)) == (2, {"workers.answer"})
    stack.beat.stop()
    Job.objects.filter(pk=job.pk).update(
        state="queued", finished_at=None, deadline_at="2020-01-01T00:00Z"
    )
    stack.broker.freeze()
    code, found = examined(stack)
    assert code == 2
    assert {"broker.reachable", "jobs.deadline_passed"} <= set(found)
    assert found["jobs.deadline_passed"]["rows"] == [str(job.pk)]
    stack.broker.thaw()


def test_a_worker_whose_children_are_all_frozen_says_that_it_is_well_and_is_found(
    stack: Stack, workspace: Workspace
) -> None:
    mine = Job.objects.filter(workspace=workspace)
    with paused(*children(stack.worker)):
        job = noop.s().enqueue(workspace=workspace, key="k")
        for published in range(1, 4):  # as if a minute and a half had passed
            mine.update(wake_at=Now())
            wait_until(mine.filter(publishes=published).exists, what="it is woken again")
        _code, found = examined(stack, "jobs.unclaimed", "workers.answer")
        assert "workers.answer" not in found
        assert str(job.pk) in found["jobs.unclaimed"]["rows"]
    job = ended(job)
    assert (job.state, job.attempt) == ("succeeded", 1)


def test_a_worker_of_one_queue_leaves_the_others_unserved(stack: Stack) -> None:
    settled(stack)
    stack.worker.stop()
    words = ["worker", "--loglevel", "INFO", "--concurrency", "1", "--queues", "sync"]
    only = stack._started("lonely", [*words, "--hostname", "lonely@%h"], ready="ready.")
    try:
        code, found = examined(stack, "workers", "queues")
        assert (code, set(found)) == (1, {"queues.unserved"})
        assert found["queues.unserved"]["rows"] == [
            "default", "provisioning", "webhooks", "webhooks_slow", "operations",
        ]  # fmt: skip
    finally:
        only.stop()
        stack.started.remove(only)


@pytest.mark.timeout(120)
def test_a_database_that_is_gone_or_frozen_is_found_in_time(stack: Stack) -> None:
    settled(stack)
    stack.database.freeze()
    code, found = examined(stack)
    stack.database.thaw()
    assert code == 2
    assert "database.reachable" in found
    stack.database.stop()
    code, found = examined(stack)
    assert code == 2
    assert "database.reachable" in found
    assert "broker.reachable" not in found
