"""Named stops: a provider that says "later" closes its gate for every job behind it.

A closed gate costs nothing: jobs behind it are not published, not claimed and not failed, and
nothing polls the provider. They are released with jitter, so that they do not all come at once.
A gate closed with ``probe_every`` opens by a deed alone, ``open_again``: meanwhile upkeep lets one
job through at a time, so that somebody learns when it may open.
*Hole:* jobs that were already running when the gate closed still reach the provider.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce, Greatest, Least, Now

from jobs.models import Gate, Job
from jobs.registry import KindSpec
from jobs.states import State, WaitReason

PLATFORM = "*"
NAME_LIMIT = 200
UNTIL_OPENED = 10 * 365 * 86400.0  # a gate has a time to open; one with probes is opened by a deed
LONGEST_PAUSE = 3600.0  # between two probes


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


def close(
    workspace_id: int,
    name: str,
    *,
    seconds: float = UNTIL_OPENED,
    reason: str,
    probe_every: float | None = None,
) -> None:
    """Close a gate for at least ``seconds`` from now; never opens one that is closed longer.

    With ``probe_every`` (seconds) the first probe comes after so long, and each next one after
    twice as long, up to an hour. Closing it again changes nothing of a course that has begun.
    """
    until = Now() + timedelta(seconds=seconds)
    gate = _named(workspace_id, name)
    later: dict[str, Any] = {
        "closed_until": Greatest(F("closed_until"), until),
        "reason": reason[:300],
    }
    course: dict[str, Any] = {}
    if probe_every is not None:
        course = {"probe_at": Now() + timedelta(seconds=probe_every), "probe_every": probe_every}
        later |= {name: Coalesce(F(name), value) for name, value in course.items()}
    if gate.update(**later):
        return
    try:
        with transaction.atomic():
            Gate.objects.create(
                name=name,
                workspace_id=_scope(workspace_id, name),
                closed_until=until,
                reason=reason[:300],
                **course,
            )
    except IntegrityError:  # somebody else closed it first
        gate.update(**later)


def open_again(workspace_id: int, name: str) -> bool:
    """Open a gate now; False if it was open. Its jobs run, oldest first, from the next pass on."""
    opened, _ = _named(workspace_id, name).filter(closed_until__gt=Now()).delete()
    if opened:
        parked = (WaitReason.THROTTLED, WaitReason.UNSTARTABLE)
        waiting = _behind(workspace_id, name).filter(wait_reason__in=parked)
        now = Least(F("run_at"), Now())
        waiting.update(wake_at=now, run_at=now)
    return bool(opened)


def to_probe() -> list[int]:
    """Closed gates whose next probe is due."""
    due = Gate.objects.filter(probe_at__lte=Now(), closed_until__gt=Now())
    return list(due.order_by("probe_at").values_list("pk", flat=True))


def let_one_through(gate_id: int) -> bool:
    """Let one attempt of the oldest due job pass a closed gate; False if none may or is there.

    In the caller's transaction. The pass is for one attempt by number: whatever becomes of it, a
    crash, a deferral or a retry, it is spent. A job that was let through and not claimed yet is
    woken again instead, so that there are never two; nor while the last one runs.
    """
    gate = Gate.objects.select_for_update().filter(pk=gate_id, probe_at__lte=Now()).first()
    if gate is None:
        return False
    last = Job.objects.filter(pk=gate.probe_id).first() if gate.probe_id else None
    spent = gate.probe_attempt or 0
    if last is not None and last.state == State.RUNNING and last.attempt == spent:
        return False
    if last is None or last.final or last.attempt >= spent:
        due = _behind(gate.workspace_id, gate.name).filter(run_at__lte=Now())
        last = due.exclude(deadline_at__lte=Now()).order_by("pk").first()
    if last is None:
        return False
    every = gate.probe_every or LONGEST_PAUSE
    Gate.objects.filter(pk=gate.pk).update(
        probe_id=last.pk,
        probe_attempt=last.attempt + 1,
        probe_at=Now() + timedelta(seconds=every),
        probe_every=min(LONGEST_PAUSE, every * 2),
    )
    return bool(_behind(gate.workspace_id, gate.name).filter(pk=last.pk).update(wake_at=Now()))


def _behind(workspace_id: int | None, name: str) -> QuerySet[Job]:
    """The queued jobs behind a gate."""
    waiting = Job.objects.filter(state=State.QUEUED, finished_at=None, gate=name)
    if workspace_id is None or _scope(workspace_id, name) is None:
        return waiting
    return waiting.filter(workspace_id=workspace_id)


def _scope(workspace_id: int, name: str) -> int | None:
    return None if name.startswith(PLATFORM) else workspace_id


def _named(workspace_id: int, name: str) -> QuerySet[Gate]:
    gates = Gate.objects.filter(name=name)
    if _scope(workspace_id, name) is None:
        return gates.filter(workspace__isnull=True)
    return gates.filter(workspace_id=workspace_id)


def behind_closed_gate() -> Exists:
    """A condition on jobs: the gate each stands behind is closed now, and lets it not through."""
    other = Q(probe_id=None) | ~Q(probe_id=OuterRef("pk"))
    return Exists(
        Gate.objects.filter(
            other | ~Q(probe_attempt=OuterRef("attempt") + 1),
            Q(workspace_id=OuterRef("workspace_id")) | Q(workspace_id=None),
            name=OuterRef("gate"),
            closed_until__gt=Now(),
        )
    )
