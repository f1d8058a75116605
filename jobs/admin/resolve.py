"""*Resolve…*."""

from __future__ import annotations

from typing import Any

from jobs.admin.confirm import Confirm
from jobs.models import Job
from jobs.recovery.plan import Plan
from jobs.recovery.resolve import resolve
from jobs.states import Verb


class Resolve(Confirm):
    """Closes a dead letter without running it."""

    verb = Verb.RESOLVE

    def button(self, job: Job, plan: Plan) -> str:
        return "Resolve without retry"

    def promise(self, job: Job, plan: Plan) -> str:
        return (
            "Nothing runs. The dead letter and its alert are closed; the job stays on record, "
            "with your reason as its resolution, which cannot be changed later."
        )

    def act(self, job: Job, typed: dict[str, Any], digest: str, **signed: Any) -> None:
        resolve(job.pk, **signed)
