"""What the release before this one cannot run."""

from __future__ import annotations

from jobs.kinds import Run, job_kind
from tests.drills.ledger import happened


@job_kind("drills.grown", max_retries=0)
def grown(run: Run, *, ledger: str, colour: str = "grey") -> None:
    happened(ledger, colour)


@job_kind("drills.added", max_retries=0)
def added(run: Run, *, ledger: str) -> None:
    happened(ledger, "added")
