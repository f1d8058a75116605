"""*Cancel…*."""

from __future__ import annotations

from typing import Any

from jobs.admin.confirm import Confirm
from jobs.models import Job
from jobs.recovery.cancel import cancel
from jobs.recovery.plan import Plan
from jobs.states import State, Verb


class Cancel(Confirm):
    """Stops a queued job now, and a running one at its next step boundary."""

    verb = Verb.CANCEL

    def button(self, job: Job, plan: Plan) -> str:
        return "Cancel at the next step boundary" if job.state == State.RUNNING else "Cancel now"

    def promise(self, job: Job, plan: Plan) -> str:
        if job.state == State.RUNNING:
            return (
                "It is asked to stop at its next step boundary. A call that is under way is not "
                "interrupted and may still take effect."
            )
        return "It never runs. It stays on record and can be retried later."

    def act(self, job: Job, typed: dict[str, Any], digest: str, **signed: Any) -> None:
        cancel(job.pk, **signed)
