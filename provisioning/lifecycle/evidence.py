"""What do the records of a chain say about its applies?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from jobs.models import Step
from jobs.states import StepState
from provisioning.lifecycle.folders import Bench
from provisioning.terraform.state import StateMark

PLAN = "plan"
APPLY = "apply"


@dataclass(frozen=True)
class Begun:
    """An apply that was begun: its folder, and where the state stood in the plan it applied."""

    folder: Path
    prior: StateMark


def begun(bench: Bench, attempt: int) -> Begun:
    """Return what the open intent of `bench`'s job is about; `attempt` is the intent's.

    A retry carries an open intent over; its writer is the job that it was carried from.
    """
    carried_from = Step.objects.values_list("carried_from", flat=True)
    writer = carried_from.get(job_id=bench.job_id, name=APPLY) or bench.job_id
    planned: Any = Step.objects.get(job_id=writer, name=PLAN).output
    prior = StateMark(planned["serial"], planned["lineage"])
    return Begun(Bench(bench.root_id, writer, attempt).apply, prior)


def is_begun(job_id: UUID) -> bool:
    """Whether the job's apply was begun, by itself or by the job that it retries."""
    begun = (StepState.STARTED, StepState.DONE)
    return Step.objects.filter(job_id=job_id, name=APPLY, state__in=begun).exists()


def last_state(root_id: UUID) -> StateMark | None:
    """Return where the chain's last apply left the state, if one has recorded that.

    A plan from an older state than that, or from none, would create everything again.
    """
    done = Step.objects.filter(job__root_id=root_id, name=APPLY, state=StepState.DONE)
    newest = done.order_by("-done_at").values_list("output", flat=True).first()
    if not isinstance(newest, dict) or "lineage" not in newest:
        return None
    return StateMark(newest["serial"], newest["lineage"])
