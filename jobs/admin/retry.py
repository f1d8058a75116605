"""*Retry from failed step…* and *Rerun from start…*."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from django.contrib import messages

from jobs.admin.confirm import Confirm
from jobs.models import Job
from jobs.recovery.plan import Plan
from jobs.recovery.retry import retry
from jobs.states import Verb, Word
from workspaces import audit
from workspaces.models import AuditEvent

if TYPE_CHECKING:
    from django.http import HttpRequest


class _Retry(Confirm):
    def act(self, job: Job, typed: dict[str, Any], digest: str, **signed: Any) -> None:
        retry(job.pk, mode=self.verb.value, digest=digest, **signed)

    def recorded(self, request: HttpRequest, job: Job, operation_id: uuid.UUID) -> AuditEvent:
        """This operation's audit event, or that of whoever was first: a job has one successor."""
        mine = audit.earlier(operation_id)
        if mine is not None:
            return super().recorded(request, job, operation_id)
        done = AuditEvent.objects.filter(
            object_type="job", object_id=str(job.pk), result=audit.DONE
        )
        first = done.filter(action=f"job.{self.verb.value}").first()
        if first is None:
            raise audit.OperationRepeated(operation_id)
        messages.warning(
            request,
            f"You were not first: {first.actor_label} has retried it already. Nothing more was "
            "done, and your reason was not recorded.",
        )
        return first


class Resume(_Retry):
    """Finished steps are kept; everything goes on under the same keys."""

    verb = Verb.RESUME

    def button(self, job: Job, plan: Plan) -> str:
        first = next((step.name for step in plan.steps if step.word is not Word.KEPT), None)
        return f"Retry from {first!r}" if first else "Retry what is left"

    def promise(self, job: Job, plan: Plan) -> str:
        kept = "Finished steps are kept and never run again."
        if any(step.word is Word.RUNS_AGAIN for step in plan.steps):
            kept = "Finished steps are kept, except those marked 'runs again' below."
        return (
            "A new job goes on where this one stopped, with the same params and the same keys "
            f"towards the outside. {kept}"
        )


class Restart(_Retry):
    """Nothing is kept; towards the outside this is a new intent."""

    verb = Verb.RESTART

    def button(self, job: Job, plan: Plan) -> str:
        count = len(plan.steps)
        return f"Rerun all {count} steps" if count > 1 else "Rerun from the start"

    def promise(self, job: Job, plan: Plan) -> str:
        return (
            "A new job does everything from the start, with the same params but new keys: "
            "providers will take it for a new order. What happened before is not undone."
        )
