"""Alerts, and the chains of jobs that keep each of them open."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workspaces.models import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable


class Severity(StrEnum):
    """How soon somebody must look. An uncertain effect is critical: only a person can end it."""

    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class AlertState(StrEnum):
    """Open until every chain in it has ended; a later dead letter opens a new alert."""

    OPEN = "open"
    RESOLVED = "resolved"


class Ending(StrEnum):
    """Why a chain no longer keeps an alert open."""

    SUCCEEDED = "succeeded"
    RESOLVED = "resolved"
    CANCELLED = "cancelled"
    MOVED = "moved"


def _choices(words: Iterable[StrEnum]) -> list[tuple[str, str]]:
    return [(word.value, word.value) for word in words]


class Alert(models.Model):
    """One cause that needs a person, however many jobs died of it.

    At most one is open per workspace and `cause_key`; the database holds that. `count` is the
    dead letters that came into it, `trace` tells of the newest of them and is scrubbed;
    `title` and `runbook` are as they were when it opened.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="alerts")
    rule = models.CharField(max_length=60)
    cause_key = models.CharField(max_length=250)
    fingerprint = models.CharField(max_length=32, blank=True)
    severity = models.CharField(max_length=10, choices=_choices(Severity))
    title = models.CharField(max_length=300)
    summary = models.TextField()
    trace = models.JSONField(default=dict)
    runbook = models.CharField(max_length=500, blank=True)
    state = models.CharField(
        max_length=10, choices=_choices(AlertState), default=AlertState.OPEN.value
    )
    opened_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())
    count = models.PositiveIntegerField(default=0)
    resolved_at = models.DateTimeField(null=True)
    resolution = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["workspace", "cause_key"],
                condition=Q(state="open"),
                name="alerts_alert_one_open",
            ),
            models.CheckConstraint(
                condition=Q(state="open", resolved_at=None)
                | Q(state="resolved", resolved_at__isnull=False),
                name="alerts_alert_resolved_has_time",
            ),
        )

    def __str__(self) -> str:
        return f"{self.severity}: {self.title}"


class AlertMember(models.Model):
    """One dead letter in an alert. Its chain keeps the alert open while `closed_at` is empty.

    A job is a member of one alert, once: that makes opening idempotent. Jobs are values here,
    not foreign keys: an alert may outlive them.
    """

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="members")
    root_id = models.UUIDField()
    job_id = models.UUIDField(unique=True)
    opened_at = models.DateTimeField(db_default=Now())
    closed_at = models.DateTimeField(null=True)
    ending = models.CharField(max_length=10, choices=_choices(Ending), blank=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(closed_at=None, ending="")
                | (Q(closed_at__isnull=False) & ~Q(ending="")),
                name="alerts_member_closed_has_ending",
            ),
        )
        indexes = (
            models.Index(
                fields=["root_id"], condition=Q(closed_at=None), name="alerts_member_open_chain"
            ),
        )

    def __str__(self) -> str:
        return f"job {self.job_id}: {self.ending or 'open'}"
