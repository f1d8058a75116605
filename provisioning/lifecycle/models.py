"""What is kept of a workspace's way to being usable."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from provisioning.lifecycle.states import State
from workspaces.models import Workspace

_STATES = [(state.value, state.value.replace("_", " ")) for state in State]


class Lifecycle(models.Model):
    """Where one workspace stands. `job_id` is the newest job of the chain that provisions it.

    A value, no foreign key: the record outlives the job's retention. `requested_by` is text, as
    all actors are. `outputs` are the module's, without those it marks as sensitive.
    """

    workspace = models.OneToOneField(Workspace, on_delete=models.PROTECT, related_name="lifecycle")
    state = models.CharField(max_length=20, choices=_STATES, default=State.REQUESTED.value)
    job_id = models.UUIDField(null=True, unique=True)
    requested_by = models.CharField(max_length=150)
    registration = models.CharField(max_length=200, blank=True, default="")
    outputs = models.JSONField(default=dict)
    requested_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())
    ready_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in State]),
                name="lifecycle_known_state",
            ),
            models.CheckConstraint(
                condition=Q(state="requested", job_id=None)
                | (~Q(state="requested") & Q(job_id__isnull=False)),
                name="lifecycle_requested_has_no_job",
            ),
            models.CheckConstraint(
                condition=Q(state="ready", ready_at__isnull=False)
                | (~Q(state="ready") & Q(ready_at=None)),
                name="lifecycle_ready_has_time",
            ),
        )

    def __str__(self) -> str:
        return f"{self.workspace}: {self.get_state_display()}"
