"""How a dead letter opens an alert, or joins the one that is open for its cause.

Guarantee: one open alert per cause and workspace, also when many jobs die at once; a dead letter
is counted once, however often its event is delivered. Written in the transaction that made the
job dead, so there is no dead letter without its alert. Hole: if this raises, the alert comes with
the event's next delivery, one upkeep pass later.

Lock order: the chain's jobs, then the insert of the alert, then alerts by id. Whoever waits for
another's insert holds no alert, so two causes that swap chains cannot wait for each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import F
from django.db.models.functions import Now

from alerts import cause, resolve
from alerts.chains import ending_of, lock_onwards
from alerts.models import Alert, AlertMember, AlertState, Ending
from jobs.events import emit
from jobs.registry import find

if TYPE_CHECKING:
    from uuid import UUID

    from django.db.models import QuerySet

    from alerts.cause import Death
    from jobs.models import Job


def open_for(job_id: UUID, death: Death) -> None:
    """Put a dead letter into the open alert of its cause, opening one if there is none.

    Does nothing when the letter is in an alert already, when its chain has ended meanwhile, when
    a later death of the chain keeps an alert open, and for kinds with `alert=None`.
    """
    kind = find(death.kind)
    if kind is not None and kind.alert is None:
        return
    chain = lock_onwards(job_id)
    if not chain or _is_settled(chain):
        return
    letter = chain[0]
    alert, elsewhere = _lock_alerts(letter, death, kind.runbook if kind else "")
    _join(alert, letter, death)
    resolve.end_members(elsewhere, letter.root_id, Ending.MOVED)


def _is_settled(chain: list[Job]) -> bool:
    letter, newest = chain[0], chain[-1]
    if ending_of(newest) or AlertMember.objects.filter(job_id=letter.pk).exists():
        return True
    superseded = letter.pk != newest.pk
    return superseded and _open_members(letter).exists()


def _open_members(letter: Job) -> QuerySet[AlertMember]:
    return AlertMember.objects.filter(root_id=letter.root_id, closed_at=None)


def _lock_alerts(letter: Job, death: Death, runbook: str) -> tuple[Alert, list[Alert]]:
    """Lock the open alert of this cause and those of other causes that the chain keeps open."""
    fresh = _fresh(letter, death, runbook)
    this = Alert.objects.filter(
        workspace=letter.workspace_id, cause_key=fresh.cause_key, state=AlertState.OPEN
    )
    while True:
        Alert.objects.bulk_create([fresh], ignore_conflicts=True)
        elsewhere = _open_members(letter).values_list("alert_id", flat=True)
        locked = resolve.lock_open({*this.values_list("pk", flat=True), *elsewhere})
        own = [alert for alert in locked if alert.cause_key == fresh.cause_key]
        if own:
            return own[0], [alert for alert in locked if alert.pk != own[0].pk]
        # It was resolved between the insert, which found it open, and the lock: open another.


def _fresh(letter: Job, death: Death, runbook: str) -> Alert:
    return Alert(
        workspace_id=letter.workspace_id,
        rule=cause.RULE,
        cause_key=cause.cause_key(death),
        fingerprint=death.fingerprint,
        severity=cause.severity(death),
        title=cause.title(death),
        summary=cause.summary(death),
        runbook=runbook,
    )


def _join(alert: Alert, letter: Job, death: Death) -> None:
    AlertMember.objects.create(alert=alert, root_id=letter.root_id, job_id=letter.pk)
    Alert.objects.filter(pk=alert.pk).update(
        count=F("count") + 1, last_at=Now(), trace=_trace(letter, death)
    )
    if alert.count == 0:
        emit("alert.opened", letter.workspace_id, alert.pk, resolve.told(alert))


def _trace(letter: Job, death: Death) -> dict[str, Any]:
    return {
        "job_id": str(letter.pk),
        "kind": letter.kind,
        "key": letter.key,
        "step": death.step,
        "attempt": death.attempt,
        "error_class": death.error_class,
        "message": death.message,
        "request_id": letter.request_id,
        "traceparent": letter.traceparent,
    }
