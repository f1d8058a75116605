"""An operation among real workers: canary, pause, go, a killed worker, and every item once."""

from __future__ import annotations

import json
from collections import Counter

from jobs.models import Job, Operation, OperationItem
from jobs.recovery.operation import pause
from tests.acceptance.stack import Stack, children
from tests.acceptance.watching import kill
from tests.drills.ledger import effects
from tests.integration.bulk_scene import KIND, WHY, rows
from tests.waiting import wait_until
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace


def told(stack: Stack, *words: str) -> dict[str, object]:
    answer = json.loads(stack.manage("job", *words, "--json"))
    assert isinstance(answer, dict)
    return answer


def outcomes(operation: Operation) -> Counter[str]:
    rows_of = OperationItem.objects.filter(operation=operation)
    return Counter(rows_of.values_list("outcome", flat=True))


def bulk(stack: Stack, workspace: Workspace, *more: str) -> Operation:
    matching = f"state=dead,workspace={workspace.slug},kind={KIND}"
    answer = told(stack, "retry", "--filter", matching, "--reason", WHY, *more)
    return Operation.objects.get(pk=str(answer["id"]))


def state(operation: Operation) -> str:
    return Operation.objects.get(pk=operation.pk).state


def successors(workspace: Workspace) -> list[str]:
    retried = Job.objects.filter(workspace=workspace, kind=KIND, retry_of__isnull=False)
    return list(retried.values_list("state", flat=True))


def test_it_goes_through_canary_pause_and_go_and_retries_each_once(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    rows(workspace, 40, params={"ledger": ledger})
    operation = bulk(stack, workspace, "--canary", "2", "--rate", "600")
    wait_until(lambda: outcomes(operation)["done"] > 2, 60, "its canary has ended well")
    # Not by a command: on a busy machine one takes longer to start than the operation to finish.
    pause(operation.pk, actor=SYSTEM, reason="lunch")
    done = outcomes(operation)["done"]
    assert state(operation) == "paused"
    engine = Job.objects.get(pk=Operation.objects.get(pk=operation.pk).job_id or "")
    wait_until(lambda: Job.objects.get(pk=engine.pk).state == "queued", 20, "its engine waits")
    assert outcomes(operation)["done"] == done
    told(stack, "operation", "go", str(operation.pk), "--reason", "back")
    wait_until(lambda: state(operation) == "finished", 60, "it has finished")
    wait_until(lambda: set(successors(workspace)) == {"succeeded"}, 30, "all have succeeded")
    assert outcomes(operation) == {"done": 40}
    assert set(effects(ledger).values()) == {1}
    assert len(successors(workspace)) == 40
    assert AuditEvent.objects.filter(workspace=workspace, action="job.resume").count() == 40


def test_killing_its_worker_repeats_no_item(
    stack: Stack, workspace: Workspace, ledger: str
) -> None:
    rows(workspace, 60, params={"ledger": ledger})
    operation = bulk(stack, workspace, "--rate", "600")
    wait_until(lambda: outcomes(operation)["done"] >= 5, 60, "it is in the middle")
    for pid in children(stack.worker):
        kill(pid)
    wait_until(lambda: state(operation) == "finished", 120, "it has finished")
    assert outcomes(operation) == {"done": 60}
    assert len(successors(workspace)) == 60
    assert AuditEvent.objects.filter(workspace=workspace, action="job.resume").count() == 60
