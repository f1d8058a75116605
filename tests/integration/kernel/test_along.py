"""Rows of an author's own that a success takes along: once, with the end or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models.functions import Now

from jobs import events, moves
from jobs.fence import Along
from jobs.kinds import Kind, Run, Transient, job_kind, step
from jobs.models import Attempt, Event, Job
from jobs.testing import attempt
from tests.integration.kernel.acting import waiting
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)

WRITES = """w AS (UPDATE workspaces_workspace w SET name = %(name)s
FROM j WHERE w.id = j.workspace_id AND j.state = 'succeeded')"""
BROKEN = WRITES.replace("%(name)s", "(1 / (length(%(name)s) - 7))::text")
WELL = "EXISTS (SELECT 1 FROM workspaces_workspace x WHERE x.id = workspace_id AND x.name = 'Acme')"


@dataclass
class Told:
    """What was called, in its order."""

    words: list[str] = field(default_factory=list)


def made(
    told: Told,
    *,
    where: str = WELL,
    writes: str = WRITES,
    meanwhile: Callable[[Run], None] = lambda _run: None,
    **policy: Any,
) -> Kind[..., Any]:
    @job_kind("test.along", **policy)
    def along(run: Run) -> int:
        meanwhile(run)
        run.along = Along(
            where, writes, {"name": "Written"}, otherwise=lambda: told.words.append("otherwise")
        )
        return 7

    @along.after
    def after(_job: Job, verb: str, _successor: Job | None) -> None:
        told.words.append(verb)

    return along


def name_of(workspace: Workspace) -> str:
    workspace.refresh_from_db()
    return workspace.name


def run_once(kind: Kind[..., Any], workspace: Workspace) -> Job:
    return attempt(waiting(kind.s(), workspace))


def test_a_plain_success_writes_them_instead_of_calling_hooks(acme: Workspace) -> None:
    told = Told()
    job = run_once(made(told), acme)
    assert (job.state, job.result, name_of(acme), told.words) == ("succeeded", 7, "Written", [])
    assert [row.outcome for row in Attempt.objects.filter(job=job)] == ["succeeded"]


@pytest.mark.parametrize("how", [{"where": "false"}, {"writes": BROKEN}])
def test_where_they_cannot_be_written_the_job_ends_in_the_usual_way(
    acme: Workspace, how: dict[str, Any]
) -> None:
    told = Told()
    job = run_once(made(told, **how), acme)
    assert (job.state, name_of(acme)) == ("succeeded", "Acme")
    assert told.words == ["otherwise", "succeeded"]
    assert Attempt.objects.filter(job=job).count() == 1


def test_whoever_wants_to_hear_of_successes_does(acme: Workspace) -> None:
    events.receives("job.succeeded", wants=lambda _id: True)(lambda _event: None)
    told = Told()
    run_once(made(told), acme)
    assert (name_of(acme), told.words) == ("Acme", ["otherwise", "succeeded"])
    assert Event.objects.filter(type="job.succeeded").count() == 1


def test_a_later_attempt_ends_in_the_usual_way(acme: Workspace) -> None:
    """It may hold locks of an earlier one."""

    def fails_once(run: Run) -> None:
        if run.attempt == 1:
            raise Transient("not yet")

    told = Told()
    job = run_once(made(told, meanwhile=fails_once), acme)
    assert (attempt(job).state, told.words) == ("succeeded", ["otherwise", "succeeded"])


def test_a_job_with_a_lock_ends_in_the_usual_way(acme: Workspace) -> None:
    told = Told()
    run_once(made(told, meanwhile=lambda run: run.lock("x")), acme)
    assert told.words == ["otherwise", "succeeded"]


def test_a_kind_with_steps_ends_in_the_usual_way(acme: Workspace) -> None:
    @step("look")
    def look() -> None: ...

    told = Told()
    run_once(made(told, steps=(look,), meanwhile=lambda run: run(look)), acme)
    assert told.words == ["otherwise", "succeeded"]


def test_a_worker_without_its_fence_writes_nothing(acme: Workspace) -> None:
    def lose(run: Run) -> None:
        Job.objects.filter(pk=run.job_id).update(attempt=2, worker="another", started_at=Now())

    told = Told()
    job = run_once(made(told, meanwhile=lose), acme)
    assert (job.state, name_of(acme), told.words) == ("running", "Acme", ["otherwise"])
    assert not Attempt.objects.filter(job=job).exists()


def test_an_answer_that_is_lost_writes_them_once(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, sent = moves.succeed_along, list[Any]()

    def act(*args: Any, **words: Any) -> Any:
        sent.append(real(*args, **words))
        if len(sent) == 1:
            raise OperationalError("server closed the connection unexpectedly")
        return sent[-1]

    monkeypatch.setattr(moves, "succeed_along", act)
    told = Told()
    job = run_once(made(told), acme)
    assert (job.state, name_of(acme), told.words) == ("succeeded", "Written", ["otherwise"])
    assert (len(sent), Attempt.objects.filter(job=job).count()) == (2, 1)
    assert "job.late_close" not in caplog.text
