"""Every answer is what its class says, which is what the schema is made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.api import answers
from jobs.models import Job
from tests.drills.kinds import once, pages, repeatable
from tests.integration.api.conftest import Caller
from tests.integration.api.jobs_scene import body, dead, waiting
from tests.integration.api.shapes import faults
from workspaces.models import Workspace

Callers = Callable[..., Caller]
pytestmark = pytest.mark.sqlite


@pytest.fixture
def letter(acme: Workspace, tmp_path: Path) -> Job:
    return dead(repeatable.s(ledger=str(tmp_path / "ledger")), acme, "second")


def test_jobs_are_told_as_declared(caller: Callers, letter: Job, acme: Workspace) -> None:
    me = caller()
    waiting(once.s(ledger=""), acme, "another")

    page = body(me.get("jobs/"))
    one = body(me.get(f"jobs/{letter.pk}/"))
    made = body(me.post(f"jobs/{letter.pk}/retry/", {"reason": "mended"}))

    assert len(page["results"]) == 2
    assert faults(answers.JobPage(), page) == []
    assert faults(answers.JobShown(), one) == []
    assert [len(one["attempts"]), len(one["steps"])] == [1, 1]
    assert faults(answers.JobMade(), made) == []
    assert faults(answers.JobLine(), body(me.get("jobs/"))["results"][0]) == []


@pytest.mark.parametrize("mode", ["resume", "restart"])
def test_a_plan_is_told_as_declared(caller: Callers, letter: Job, mode: str) -> None:
    plan = body(caller().get(f"jobs/{letter.pk}/retry/", {"mode": mode}))

    assert faults(answers.PlanShown(), plan) == []
    assert plan["steps"]
    assert plan["checks"]


def test_a_difference_is_found(caller: Callers, letter: Job) -> None:
    told = body(caller().get("jobs/"))["results"][0]

    assert faults(answers.JobLine(), {**told, "extra": 1}) == [".extra is not declared"]
    assert faults(answers.JobLine(), {**told, "state": "odd"})
    del told["state"]
    assert faults(answers.JobLine(), told) == [".state is missing"]


def test_a_job_of_ten_thousand_steps_is_told_in_part(
    caller: Callers, acme: Workspace, tmp_path: Path
) -> None:
    job = waiting(pages.s(ledger=str(tmp_path / "ledger"), count=3), acme)
    row = {"effect": "repeatable", "state": "done", "attempt": 1}
    job.steps.bulk_create(job.steps.model(job=job, name=f"page:{n}", **row) for n in range(300))

    told = body(caller().get(f"jobs/{job.pk}/"))

    assert (len(told["steps"]), told["more_steps"]) == (200, True)
