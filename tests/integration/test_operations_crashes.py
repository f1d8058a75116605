"""A worker that is killed in the middle of an operation: no item is repeated, none is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.db.models.functions import Now

from jobs import moves
from jobs.models import Job, Operation, OperationItem, Step
from jobs.recovery.bulk import SPEC
from jobs.recovery.job_verbs import ENGINE
from jobs.run import Run
from jobs.states import State
from jobs.stops import LeaseLost
from jobs.sweep import sweep
from jobs.testing import When, crash_at, drain
from jobs.worker import identity
from tests.drills.ledger import effects
from tests.integration.bulk_scene import (
    QUICK,
    behind_its_pace,
    drafted,
    engine_of,
    member,
    outcomes,
    rows,
    started,
    successors,
    turn,
)
from workspaces.models import AuditEvent, Workspace

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).parents[2]
_ATTEMPT = """
import sys, uuid, django
django.setup()
import tests.drills.bulk
from jobs import runner
runner.execute("jobs.operation", uuid.UUID(sys.argv[1]))
"""


def killed(operation: Operation) -> None:
    """One attempt of the engine in a process of its own, which must end by SIGKILL."""
    behind_its_pace(operation)
    url = urlsplit(os.environ["DATABASE_URL"])
    environ = {
        **os.environ,
        "DATABASE_URL": url._replace(path=f"/{connection.settings_dict['NAME']}").geturl(),
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }
    command = [sys.executable, "-c", _ATTEMPT, str(operation.job_id)]
    ended = subprocess.run(
        command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, check=False, timeout=60
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def reaped(operation: Operation) -> Job:
    """The engine's job once upkeep has noticed that nobody renews its lease."""
    running = Job.objects.filter(pk=engine_of(operation).pk, state=State.RUNNING)
    assert running.update(lease_until=Now() - timedelta(seconds=1)) == 1
    sweep(reap_now=True)
    return engine_of(operation)


def test_an_item_whose_deed_was_done_but_not_committed_is_done_once(
    acme: Workspace, tmp_path: Path
) -> None:
    ledger = str(tmp_path / "ledger")
    rows(acme, 2, "a", params={"ledger": ledger})
    fatal = {"ledger": ledger, "hook": "kill", "once_file": str(tmp_path / "once")}
    rows(acme, 1, "b-fatal", params=fatal)
    rows(acme, 2, "c", params={"ledger": ledger})
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    killed(operation)
    assert outcomes(operation) == {"done": 2, "pending": 3}
    assert successors(acme) == 2, "what the third had done went with its transaction"
    again = reaped(operation)
    assert (again.state, again.losses) == ("queued", 1)
    assert turn(operation).state == "finished"
    assert outcomes(operation) == {"done": 5}
    assert successors(acme) == 5
    assert AuditEvent.objects.filter(action="job.resume").count() == 5
    tried = effects(ledger)
    assert tried.pop("retried:b-fatal-0000") == 2
    assert set(tried.values()) == {1}


def test_an_item_that_was_committed_is_not_done_again(acme: Workspace, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    rows(acme, 1, "a", params={"ledger": ledger})
    fatal = {"hook": "kill_once_committed", "once_file": str(tmp_path / "once")}
    rows(acme, 1, "b-fatal", params={"ledger": ledger, **fatal})
    rows(acme, 2, "c", params={"ledger": ledger})
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    killed(operation)
    assert outcomes(operation) == {"done": 2, "pending": 2}
    assert Step.objects.filter(job=engine_of(operation), state="done").count() == 2
    reaped(operation)
    assert turn(operation).state == "finished"
    assert set(effects(ledger).values()) == {1}
    assert successors(acme) == 4
    done = OperationItem.objects.filter(operation=operation).order_by("position")
    assert len(set(done.values_list("result_id", flat=True))) == 4


def test_a_deadlock_costs_the_engine_a_retry_and_the_item_nothing(
    acme: Workspace, tmp_path: Path
) -> None:
    rows(acme, 2, "a")
    rows(acme, 1, "b", params={"hook": "deadlock", "once_file": str(tmp_path / "once")})
    rows(acme, 1, "c")
    ana = member(acme)
    operation = turn(started(drafted(acme, ana), ana))
    assert outcomes(operation) == {"done": 2, "pending": 2}
    engine = engine_of(operation)
    assert (engine.state, engine.wait_reason, engine.failures) == ("queued", "retry", 1)
    assert turn(operation).state == "finished"
    assert outcomes(operation) == {"done": 4}
    assert successors(acme) == 4


def test_an_engine_that_does_not_know_the_verb_yet_waits_for_newer_code(acme: Workspace) -> None:
    rows(acme, 1)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    Operation.objects.filter(pk=operation.pk).update(verb="newer")
    turn(operation)
    engine = engine_of(operation)
    assert (engine.state, engine.wait_reason, operation.state) == ("queued", "retry", "running")
    Operation.objects.filter(pk=operation.pk).update(verb="resume")
    assert turn(operation).state == "finished"


@pytest.mark.sqlite
@pytest.mark.parametrize("step", ["item", "canary"])
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_wherever_a_step_of_the_engine_dies_each_item_is_done_once(
    acme: Workspace, step: str, when: When
) -> None:
    rows(acme, 4)
    ana = member(acme)
    operation = drafted(acme, ana, care=replace(QUICK, canary=2))
    with crash_at(step, when):
        started(operation, ana)
        drain()
    drain()
    operation.refresh_from_db()
    assert (operation.state, outcomes(operation)) == ("finished", {"done": 4})
    assert engine_of(operation).losses == 1
    assert successors(acme) == 4
    assert AuditEvent.objects.filter(action="job.resume").count() == 4


def test_a_worker_that_lost_its_lease_does_nothing_more(acme: Workspace) -> None:
    rows(acme, 2)
    ana = member(acme)
    operation = started(drafted(acme, ana), ana)
    late = moves.claim(engine_of(operation).pk, ENGINE, worker=identity(), lease=60, time_limit=60)
    assert late is not None
    reaped(operation)
    assert turn(operation).state == "finished"
    Operation.objects.update(state="running", finished_at=None)
    OperationItem.objects.update(outcome="pending")
    before = successors(acme)
    with pytest.raises(LeaseLost):
        SPEC.handler(Run(SPEC, late), operation_id=str(operation.pk))
    assert (outcomes(operation), successors(acme)) == ({"pending": 2}, before)
