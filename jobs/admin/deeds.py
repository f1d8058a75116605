"""What operators did to jobs, from the audit trail, for those who may read it."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.curtain import Curtain
from jobs.states import Observation, State, Verb
from workspaces import audit
from workspaces.actors import Actor
from workspaces.models import AuditEvent
from workspaces.permissions import allowed

SHOWN = 100

_PAST = {
    Verb.RESUME: "retried it from the failed step",
    Verb.RESTART: "reran it from the start",
    Verb.RESOLVE: "resolved it",
}


@dataclass(frozen=True)
class Deed:
    """One audit event about a job, in words."""

    event: AuditEvent
    did: str
    reason: str


def in_words(event: AuditEvent, curtain: Curtain) -> Deed:
    """An audit event whose action is ``job.<verb>``, behind the job's curtain."""
    after: dict[str, Any] = event.after if isinstance(event.after, dict) else {}
    return Deed(event, _did(event.action.removeprefix("job."), after), curtain.text(event.reason))


def deeds_on(
    job_ids: Sequence[uuid.UUID], workspace_id: int, actor: Actor, curtain: Curtain
) -> dict[str, list[Deed]]:
    """The newest deeds done to some jobs of a workspace, oldest first; none without audit.view."""
    if not allowed(actor, "audit.view", workspace_id):
        return {}
    ids = [str(job_id) for job_id in job_ids]
    events = AuditEvent.objects.filter(object_type="job", object_id__in=ids, result=audit.DONE)
    found: dict[str, list[Deed]] = defaultdict(list)
    for event in reversed(events[:SHOWN]):
        found[event.object_id].append(in_words(event, curtain))
    return found


def _did(verb: str, after: dict[str, Any]) -> str:
    if verb == Verb.RECONCILE:
        outcome = Observation(after["outcome"]).replace("_", " ")
        return f"recorded that step {after['step']!r} {outcome}"
    if verb == Verb.CANCEL:
        now = after.get("state")
        return {
            State.RUNNING.value: "asked it to stop at its next step boundary",
            State.CANCELLED.value: "cancelled it",
        }.get(str(now), f"cancelled it; it ended {now}, since a step is in doubt")
    return _PAST.get(Verb(verb), verb) if verb in list(Verb) else verb
