"""A named stop: jobs behind it wait, using no attempts, until it opens."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from workspaces.models import Workspace


class Gate(models.Model):
    """A throttled provider or a failing endpoint. No workspace: the platform's own account.

    With ``probe_at`` it opens by no time: from then on upkeep lets one job through, the attempt
    ``probe_attempt`` of job ``probe_id``, and another ``probe_every`` seconds later, which double.
    """

    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    name = models.CharField(max_length=200)
    closed_until = models.DateTimeField()
    reason = models.CharField(max_length=300, blank=True, db_default="")
    probe_at = models.DateTimeField(null=True, blank=True)
    probe_every = models.FloatField(null=True, blank=True)
    probe_id = models.UUIDField(null=True, blank=True)
    probe_attempt = models.IntegerField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["name", "workspace"],
                condition=Q(workspace__isnull=False),
                name="jobs_gate_of_workspace",
            ),
            models.UniqueConstraint(
                fields=["name"], condition=Q(workspace__isnull=True), name="jobs_gate_of_platform"
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} until {self.closed_until:%Y-%m-%d %H:%M:%S}"
