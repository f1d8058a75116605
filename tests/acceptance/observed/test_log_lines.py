"""Every line about an attempt says whose it is, in one JSON object, and says no secret."""

from __future__ import annotations

from typing import Any

from celery import current_app

from jobs import tasks
from jobs.models import Job
from tests.acceptance.stack import Stack
from tests.acceptance.watching import ended
from tests.drills.kinds import kills_itself, noop
from tests.drills.talkative import talkative
from tests.waiting import wait_until
from workspaces.models import Workspace

CANARY = "4111-canary-1111"
REQUEST = "req-4f1d0c77"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
SAID = (
    "said by the run",
    "said by a library",
    "said\nin two lines",
    "said.by_structlog",
    "said to nobody",
    "said as a warning",
    "said with a traceback",
    "job.attempt_failed",
    "job.attempt_closed",
)


def about(stack: Stack, job: Job) -> list[dict[str, Any]]:
    """The lines that name a job."""
    return [line for line in stack.lines() if line.get("job_id") == str(job.pk)]


def test_every_line_of_an_attempt_names_it_and_hides_the_card(
    stack: Stack, workspace: Workspace
) -> None:
    intended = talkative.s(card={"number": CANARY}, fault="terminal")
    job = ended(
        intended.enqueue(
            workspace=workspace, key="talk", request_id=REQUEST, traceparent=TRACEPARENT
        )
    )
    wait_until(lambda: any(line["event"] == "job.attempt_closed" for line in about(stack, job)))
    lines = about(stack, job)
    said = [line["event"] for line in lines]
    assert [words for words in SAID if not any(words in each for each in said)] == []
    for line in lines:
        named = {key: line[key] for key in ("kind", "attempt", "workspace", "request_id")}
        assert named == {
            "kind": "drills.talkative",
            "attempt": 1,
            "workspace": workspace.pk,
            "request_id": REQUEST,
        }
        assert line["trace_id"] == TRACE
    assert "said" in str([line for line in lines if line.get("said_attempt") == "of its own"])
    assert CANARY not in stack.log()


def test_whoever_reaps_an_attempt_names_it_and_every_line_is_an_object(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    job = kills_itself.s(ledger=ledger).enqueue(
        workspace=workspace, key="reaped", request_id=REQUEST, traceparent=TRACEPARENT
    )
    ended(job)
    wait_until(lambda: any(line["event"] == "job.dead" for line in about(stack, job)))
    lines = about(stack, job)
    reaped = [line["attempt"] for line in lines if line["event"] == "sweep.reaped"]
    assert reaped == [1, 2, 3]
    assert [line["event"] for line in lines].count("job.dead") == 1
    assert {line["trace_id"] for line in lines} == {TRACE}
    assert {line["request_id"] for line in lines} == {REQUEST}
    for process in (stack.worker, stack.beat):  # one that stops says so in plain words
        _banner, _, after = process.log().partition('\n{"')
        plain = [line for line in after.splitlines()[1:] if not line.startswith("{")]
        assert plain == []


def test_a_message_that_claims_nothing_leaves_nothing(stack: Stack, workspace: Workspace) -> None:
    job = ended(noop.s().enqueue(workspace=workspace, key="once"))
    wait_until(lambda: about(stack, job), what="its one line is written")
    before = len(stack.lines())
    ran = handled(stack)
    for _ in range(5):
        tasks.send([(job.pk, job.kind)])
    wait_until(lambda: handled(stack) == ran + 5, what="five more messages were handled")
    assert stack.lines()[before:] == []
    assert Job.objects.get(pk=job.pk).attempts.count() == 1


def handled(stack: Stack) -> int:
    """How many no-op messages the worker has taken in all."""
    answers = current_app.control.inspect(timeout=1.0).stats() or {}
    return sum(answer["total"].get("drills.noop", 0) for answer in answers.values())
