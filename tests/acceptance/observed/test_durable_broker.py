"""The broker keeps its queues over a restart, and so knows some messages that were sent again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from django.db.models.functions import Now

from jobs.models import Job
from tests.acceptance.stack import Stack, is_alive
from tests.acceptance.watching import (
    all_ended,
    held_by_workers,
    holding,
    outcomes,
    paused,
    process_in,
)
from tests.drills.held import held
from tests.drills.kinds import repeatable
from tests.drills.ledger import effects
from tests.waiting import wait_until
from workspaces.models import Workspace

TAKEN = 4  # as many as there are children: one is taken ahead for each


def test_jobs_that_ran_were_taken_or_queued_at_its_restart_run_once(
    stack: Stack, workspace: Workspace, tmp_path: Path
) -> None:
    worker, ledger = stack.worker.pid, str(tmp_path / "ledger")
    holds = [str(tmp_path / str(number)) for number in range(4)]
    with holding(*holds), stack.wire() as wire:
        busy = [held.s(ledger=path).enqueue(workspace=workspace, key=path) for path in holds]
        for path in holds:
            process_in(path, "work")
        jobs = [
            repeatable.s(ledger=ledger).enqueue(workspace=workspace, key=str(n))
            for n in range(3 * TAKEN)
        ]
        # The upkeep pass wakes none of them meanwhile.
        Job.objects.filter(workspace=workspace).update(wake_at=Now() + timedelta(hours=1))
        wait_until(lambda: held_by_workers("reserved") == TAKEN, 60, "some are taken ahead")
        with paused(stack.worker.pid):  # it takes nothing more before we have looked
            stack.broker.kill()
            stack.broker.start()
            assert wire.llen("default") == 2 * TAKEN, "the broker kept the others"
    Job.objects.filter(workspace=workspace).update(wake_at=Now())
    for job in all_ended([*busy, *jobs]):
        assert (job.state, outcomes(job)) == ("succeeded", ["succeeded"])
    assert effects(ledger) == {"first": 3 * TAKEN, "second": 3 * TAKEN}
    assert (stack.worker.pid, is_alive(stack.worker)) == (worker, True)
