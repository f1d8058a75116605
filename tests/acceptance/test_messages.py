"""What a worker makes of bad messages, and what it says in its log."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from django.db.models.functions import Now
from django_celery_results.models import TaskResult

from jobs import registry, tasks
from jobs.enqueue import enqueue
from jobs.models import Attempt, Job
from tests.acceptance.stack import Stack, is_alive
from tests.acceptance.watching import (
    all_ended,
    ended,
    holding,
    kill,
    message,
    outcomes,
    process_in,
    taken,
)
from tests.drills.held import held, patient
from tests.drills.kinds import noop, repeatable
from tests.drills.ledger import effects
from tests.waiting import wait_until
from workspaces.models import Workspace

CANARIES = ("4111-canary-1111", "hunter2-canary", "canary-token-from-login")


@pytest.mark.parametrize(
    ("task", "body"),
    [
        pytest.param("drills.unheard_of", [[str(uuid.uuid4())], {}, {}], id="unknown task"),
        pytest.param("drills.noop", "not JSON {", id="not JSON"),
        pytest.param("drills.noop", [[], {}, {}], id="no arguments"),
        pytest.param("drills.noop", [["a", "b"], {"c": 1}, {}], id="other arguments"),
        pytest.param("drills.noop", [["no id"], {}, {}], id="no id"),
        pytest.param("drills.noop", [[str(uuid.uuid4())], {}, {}], id="id of no job"),
    ],
)
def test_a_bad_message_leaves_the_worker_alive(
    stack: Stack, workspace: Workspace, task: str, body: object
) -> None:
    worker = stack.worker.pid
    with stack.wire() as wire:
        for _ in range(4):
            wire.lpush("default", message(task, body))
        wait_until(lambda: not wire.llen("default"))
    jobs = [noop.s().enqueue(workspace=workspace, key=str(number)) for number in range(8)]
    assert {ended(job).state for job in jobs} == {"succeeded"}
    assert (stack.worker.pid, is_alive(stack.worker)) == (worker, True)


def test_a_message_that_names_another_kind_claims_nothing(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    stack.beat.stop()  # the only one who would wake the job
    job = held.s(ledger=ledger).enqueue(workspace=workspace, key="k", countdown=0.01)
    wait_until(lambda: Job.objects.filter(pk=job.pk, run_at__lt=Now()).exists())
    tasks.send([(job.pk, patient.name)])
    ended(noop.s().enqueue(workspace=workspace, key="behind it"))
    job.refresh_from_db()
    assert (job.state, job.attempt, effects(ledger)) == ("queued", 0, {})
    tasks.send([(job.pk, job.kind)])
    assert ended(job).state == "succeeded"


def test_no_param_and_no_secret_reaches_a_log_or_a_result(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    params = {"ledger": ledger, "card": {"number": CANARIES[0]}, "fault": "leak"}
    job = ended(enqueue("drills.secretive", workspace=workspace, key="k", params=params))
    assert (job.state, job.cause) == ("dead", "terminal")
    with holding(ledger):
        lost = held.s(ledger=ledger).enqueue(workspace=workspace, key="lost")
        kill(process_in(ledger, "work"))
        wait_until(lambda: outcomes(lost) == ["lost"])
    ended(lost)
    attempt = Attempt.objects.get(job=job)
    results = json.dumps(list(TaskResult.objects.values()), default=str)
    shown = stack.log() + attempt.message + attempt.traceback + results
    assert str(job.pk) in shown
    assert str(lost.pk) in shown
    for canary in (*CANARIES, ledger):
        assert canary not in shown


def test_whatever_a_handler_raises_is_recorded_and_never_an_answer_to_celery(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    """Some errors would tell Celery to run the message again; some would lose their words."""
    jobs = {
        fault: repeatable.s(ledger=str(tmp_path / fault), fault=fault).enqueue(
            workspace=workspace, key=fault
        )
        for fault in ("celery_reject", "celery_ignore", "celery_retry", "odd")
    }
    done = {job.key: job for job in all_ended(list(jobs.values()))}
    taken(stack)
    ended(noop.s().enqueue(workspace=workspace, key="behind them"))
    classes = {fault: Attempt.objects.get(job=job).error_class for fault, job in jobs.items()}
    assert {name.rpartition(".")[2] for name in classes.values()} == {
        "Reject", "Ignore", "Retry", "Odd",
    }  # fmt: skip
    assert Attempt.objects.get(job=jobs["odd"]).message == "7: of its own"
    assert {(job.state, job.cause) for job in done.values()} == {("dead", "terminal")}
    assert [effects(tmp_path / fault) for fault in jobs] == [{"first": 1}] * 4


def test_a_worker_and_a_beat_start_without_an_error(stack: Stack) -> None:
    for process, ready in ((stack.worker, " ready."), (stack.beat, "beat: Starting")):
        start, found, _ = process.log().partition(ready)
        assert found
        assert "Traceback" not in start
        lines = [json.loads(line) for line in start.splitlines() if line.endswith("}")]
        assert {line["level"] for line in lines} <= {"info"}


def test_celery_speaks_of_kinds_by_their_names(stack: Stack) -> None:
    listed = stack.celery("inspect", "registered")
    assert registry.KINDS.keys() == {
        line.strip("* ") for line in listed.splitlines() if "* " in line
    }
