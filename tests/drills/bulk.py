"""A kind to be retried by the hundred, whose hooks can be told to get in the way."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from django.db import OperationalError, transaction

from jobs.kinds import Job, Refused, Run, job_kind
from tests.drills.faults import strike
from tests.drills.ledger import happened


@job_kind("drills.bulk", max_retries=0, lease=timedelta(seconds=3))
def bulk(
    run: Run, *, ledger: str = "", then: str = "none", hook: str = "none", once_file: str = ""
) -> None:
    """``then`` is what happens when it runs, ``hook`` what its hooks do when it is retried."""
    strike(then)


@bulk.before
def may_be(job: Job, verb: str) -> None:
    if job.params.get("hook") == "refuse":
        raise Refused("refunded", "Nothing was done: the order was refunded meanwhile.")


@bulk.after
def note(job: Job, verb: str, successor: Job | None) -> None:
    if successor is None:
        return
    if job.params.get("ledger"):
        happened(job.params["ledger"], f"retried:{job.key}")
    hook, once_file = job.params.get("hook", "none"), job.params.get("once_file", "")
    if hook == "kill_once_committed":
        transaction.on_commit(lambda: strike("kill", once_file))
    elif hook == "deadlock":
        if not Path(once_file).exists():
            Path(once_file).touch()
            raise OperationalError("deadlock detected")
    elif hook != "refuse":
        strike(hook, once_file)


@job_kind("drills.bulk_risky", risk=3, max_retries=0)
def risky(run: Run) -> None:
    pass


@job_kind("drills.bulk_new", version=2, max_retries=0)
def renewed(run: Run) -> None:
    pass
