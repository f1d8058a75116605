"""How an alert ends: when the last chain that keeps it open has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models.functions import Now

from alerts.chains import ending_of, lock_onwards
from alerts.models import Alert, AlertMember, AlertState, Ending
from jobs.events import emit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

RESOLUTIONS = {
    Ending.SUCCEEDED: "The last affected job succeeded on retry.",
    Ending.RESOLVED: "The last affected job was resolved by an operator.",
    Ending.CANCELLED: "The last affected job was cancelled by an operator.",
    Ending.MOVED: "The last affected job died again of another cause, which has its own alert.",
}


def settle(job_id: UUID) -> None:
    """End a chain's part in its alerts if the chain has ended; else do nothing.

    Idempotent, and right whenever it is called: it goes by the rows, not by who calls.
    """
    chain = lock_onwards(job_id)
    ending = ending_of(chain[-1]) if chain else None
    if ending is not None:
        root_id = chain[-1].root_id
        open_members = AlertMember.objects.filter(root_id=root_id, closed_at=None)
        alerts = lock_open(open_members.values_list("alert_id", flat=True))
        end_members(alerts, root_id, ending)


def lock_open(ids: Iterable[int]) -> list[Alert]:
    """Lock those of the alerts that are open, in the one order that everybody uses."""
    still_open = Alert.objects.filter(pk__in=set(ids), state=AlertState.OPEN)
    return list(still_open.select_for_update().order_by("pk"))


def end_members(alerts: Iterable[Alert], root_id: UUID, ending: Ending) -> None:
    """End one chain's part in locked, open alerts; resolve those that no chain keeps open."""
    for alert in alerts:
        members = AlertMember.objects.filter(alert=alert, closed_at=None)
        members.filter(root_id=root_id).update(closed_at=Now(), ending=ending)
        if not members.exists():
            end(alert, RESOLUTIONS[ending])


def told(alert: Alert) -> dict[str, Any]:
    """Say what the events about an alert carry; free of secrets, as the alert is."""
    return {
        "rule": alert.rule,
        "cause_key": alert.cause_key,
        "severity": alert.severity,
        "title": alert.title,
        "resolution": alert.resolution,
    }


def end(alert: Alert, resolution: str) -> None:
    """Resolve a locked, open alert, for a reason in words."""
    alert.resolution = resolution
    Alert.objects.filter(pk=alert.pk).update(
        state=AlertState.RESOLVED, resolved_at=Now(), resolution=alert.resolution
    )
    emit("alert.resolved", alert.workspace_id, alert.pk, told(alert))
