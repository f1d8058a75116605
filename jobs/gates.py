"""Named stops: a provider that says "later" closes its gate for every job behind it.

A closed gate costs nothing: jobs behind it are not published, not claimed and not failed, and
nothing polls the provider. They are released with jitter, so that they do not all come at once.
*Hole:* jobs that were already running when the gate closed still reach the provider.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Greatest, Least, Now

from jobs.models import Gate, Job
from jobs.registry import KindSpec
from jobs.states import State, WaitReason

PLATFORM = "*"
NAME_LIMIT = 200


def gate_of(spec: KindSpec, arguments: dict[str, Any]) -> str:
    """The gate a job stands behind, as its row stores it; empty for none.

    A kind's constant name is the platform's own account, the same gate for all workspaces; a
    name made from params is the workspace's. Raises ValueError for a name that cannot be stored.
    """
    if spec.throttle is None:
        return ""
    if isinstance(spec.throttle, str):
        return f"{PLATFORM}{spec.throttle}"
    name = spec.throttle(**arguments)
    if not name or name.startswith(PLATFORM) or len(name) > NAME_LIMIT:
        raise ValueError(f"kind {spec.name}: its throttle made the gate name {name!r}")
    return name


def close(workspace_id: int, name: str, *, seconds: float, reason: str) -> None:
    """Close a gate for at least ``seconds`` from now; never opens one that is closed longer."""
    until = Now() + timedelta(seconds=seconds)
    gate = _named(workspace_id, name)
    later = {"closed_until": Greatest(F("closed_until"), until), "reason": reason[:300]}
    if gate.update(**later):
        return
    try:
        with transaction.atomic():
            Gate.objects.create(
                name=name,
                workspace_id=_scope(workspace_id, name),
                closed_until=until,
                reason=reason[:300],
            )
    except IntegrityError:  # somebody else closed it first
        gate.update(**later)


def open_again(workspace_id: int, name: str) -> bool:
    """Open a gate now; False if it was open. Its jobs run from the next upkeep pass on."""
    opened, _ = _named(workspace_id, name).filter(closed_until__gt=Now()).delete()
    if opened:
        waiting = Job.objects.filter(
            state=State.QUEUED, gate=name, wait_reason=WaitReason.THROTTLED
        )
        if _scope(workspace_id, name) is not None:
            waiting = waiting.filter(workspace_id=workspace_id)
        waiting.update(wake_at=Now(), run_at=Least(F("run_at"), Now()))
    return bool(opened)


def _scope(workspace_id: int, name: str) -> int | None:
    return None if name.startswith(PLATFORM) else workspace_id


def _named(workspace_id: int, name: str) -> QuerySet[Gate]:
    gates = Gate.objects.filter(name=name)
    if _scope(workspace_id, name) is None:
        return gates.filter(workspace__isnull=True)
    return gates.filter(workspace_id=workspace_id)


def behind_closed_gate() -> Exists:
    """A condition on jobs: the gate each stands behind is closed now."""
    return Exists(
        Gate.objects.filter(
            Q(workspace_id=OuterRef("workspace_id")) | Q(workspace_id=None),
            name=OuterRef("gate"),
            closed_until__gt=Now(),
        )
    )
