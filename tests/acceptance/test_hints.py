"""A message is a hint: nothing keeps it, nothing in it ages, and what it asks for may be over."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from jobs import tasks
from jobs.models import Job
from jobs.recovery.cancel import cancel
from tests.acceptance.stack import Stack
from tests.acceptance.watching import (
    all_busy,
    all_ended,
    ended,
    held_by_workers,
    holding,
    process_in,
    taken,
)
from tests.drills.held import held
from tests.drills.kinds import noop, repeatable
from tests.drills.ledger import effects
from tests.waiting import wait_until
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

HOUR = 3600.0


def test_workers_note_at_the_broker_nothing_that_another_could_give_back_too_early(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    """However short the visibility timeout of that other is, and however fast its clock."""
    with all_busy(workspace, tmp_path) as busy, stack.wire() as wire:
        behind = [noop.s().enqueue(workspace=workspace, key=str(n)) for n in range(4)]
        wait_until(lambda: held_by_workers("reserved") == len(behind), 60, "all are taken")
        kept = {key.decode() for key in wire.keys()}
    assert any(key.startswith("_kombu.binding") for key in kept), "kombu's keys are seen"
    assert not {key for key in kept if "unacked" in key}
    assert {job.attempt for job in all_ended([*busy, *behind])} == {1}


def test_delayed_jobs_wait_in_their_rows_and_hold_nobody_up(
    stack: Stack, workspace: Workspace
) -> None:
    for number in range(40):
        noop.s().enqueue(workspace=workspace, key=f"later-{number}", countdown=HOUR)
    now = ended(noop.s().enqueue(workspace=workspace, key="now"))
    assert (now.state, now.publishes) == ("succeeded", 0)
    assert held_by_workers("scheduled") == held_by_workers("reserved") == 0
    with stack.wire() as wire:
        assert wire.llen("default") == 0
    assert Job.objects.filter(workspace=workspace, publishes=0, state="queued").count() == 40


def test_a_message_says_an_id_and_nothing_that_ages(stack: Stack, workspace: Workspace) -> None:
    stack.worker.stop()
    job = noop.s().enqueue(workspace=workspace, key="k")
    with stack.wire() as wire:
        (entry,) = (text for text in wire.lrange("default", 0, -1) if str(job.pk).encode() in text)
    message: dict[str, Any] = json.loads(entry)
    headers, body = message["headers"], json.loads(base64.b64decode(message["body"]))
    assert (headers["expires"], headers["eta"], headers["retries"]) == (None, None, 0)
    assert body[:2] == [[str(job.pk)], {}]
    assert not any(body[2].values()), "no chord, no chain, no callback"
    stack.worker = stack.start_worker()
    assert ended(job).state == "succeeded"


def test_what_was_cancelled_is_not_run_by_a_worker_that_starts_later(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    """Its messages are there still: one in the queue, one that a killed worker had taken."""
    holds = [str(tmp_path / str(number)) for number in range(4)]
    with holding(*holds):
        busy = [held.s(ledger=path).enqueue(workspace=workspace, key=path) for path in holds]
        for path in holds:
            process_in(path, "work")
        ledger = str(tmp_path / "ledger")
        job = repeatable.s(ledger=ledger).enqueue(workspace=workspace, key="k")
        wait_until(lambda: held_by_workers("reserved") == 1, 60, "a worker has taken it")
        stack.worker.kill()
        cancel(job.pk, actor=SYSTEM, reason="not needed any more")
        tasks.send([(job.pk, job.kind)] * 3)
    stack.worker = stack.start_worker()
    assert {each.state for each in all_ended(busy)} == {"succeeded"}
    taken(stack)
    job.refresh_from_db()
    assert (job.state, job.attempt, effects(ledger)) == ("cancelled", 0, {})
