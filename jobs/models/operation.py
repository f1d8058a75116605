"""A durable bulk deed, and what became of each of its items."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from jobs.models.ids import uuid7
from jobs.states import ItemOutcome, OperationState
from workspaces.models import Workspace
from workspaces.models.newest import NewestFirst

GATE = "operation:"
_ENDED = [OperationState.FINISHED.value, OperationState.STOPPED.value]


class Operation(models.Model):
    """One verb done to many objects of one workspace, item by item, by an engine job.

    The selection is frozen to ids at ``frozen_at``, whatever it was made from (``selection`` says
    it in words). ``selected`` and ``eligible`` count it as it was then; ``outward`` counts the
    calls that its plans meant to make, by effect. Rates are items a minute, None for no limit.
    ``watched_from`` is the position from which the stop rule counts; ``note`` says why it is
    paused or stopped. ``actor`` is in whose name the items are done. ``job_id`` is the newest job
    of the engine's chain: a value, since the operation outlives it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    verb = models.CharField(max_length=60)
    state = models.CharField(
        max_length=10,
        choices=[(s.value, s.value) for s in OperationState],
        default=OperationState.DRAFT.value,
    )
    note = models.TextField(blank=True, default="")
    selection = models.CharField(max_length=500)
    selected = models.IntegerField()
    eligible = models.IntegerField()
    outward = models.JSONField(default=dict)
    canary = models.IntegerField(default=0)
    rate_per_minute = models.IntegerField(null=True, blank=True)
    stop_after = models.IntegerField()
    stop_ratio = models.FloatField()
    watched_from = models.IntegerField(default=1)
    paced_until = models.DateTimeField(null=True, blank=True)
    reason = models.TextField(blank=True, default="")
    actor = models.CharField(max_length=150)
    actor_label = models.CharField(max_length=200)
    job_id = models.UUIDField(null=True, blank=True)
    frozen_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolution = models.TextField(blank=True, default="")

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["job_id"],
                condition=Q(job_id__isnull=False),
                name="jobs_operation_one_engine",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in OperationState]),
                name="jobs_operation_known_state",
            ),
            models.CheckConstraint(
                condition=Q(state__in=_ENDED, finished_at__isnull=False)
                | (~Q(state__in=_ENDED) & Q(finished_at__isnull=True)),
                name="jobs_operation_ended_has_time",
            ),
        )
        indexes = (models.Index(F("workspace"), NewestFirst(), name="jobs_operation_newest"),)

    def __str__(self) -> str:
        return f"{self.verb} of {self.eligible}"

    @property
    def ended(self) -> bool:
        return self.state in _ENDED

    @property
    def gate(self) -> str:
        """The gate that its engine stands behind: closed while it is paused."""
        return f"{GATE}{self.pk}"


class OperationItem(models.Model):
    """One object of an operation, once. ``code`` and ``sentence`` say why it was not done.

    An item that was skipped when the selection was frozen has no ``done_at``; every other one
    gets it together with its outcome. ``result_id`` names what came of it, such as the successor
    of a retried job.
    """

    operation = models.ForeignKey(
        Operation, on_delete=models.CASCADE, related_name="items", db_index=False
    )
    object_id = models.CharField(max_length=100)
    position = models.IntegerField()
    outcome = models.CharField(max_length=10, choices=[(o.value, o.value) for o in ItemOutcome])
    code = models.CharField(max_length=60, blank=True, default="")
    sentence = models.TextField(blank=True, default="")
    result_id = models.CharField(max_length=100, blank=True, default="")
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["operation", "object_id"], name="jobs_operationitem_one_object"
            ),
            models.UniqueConstraint(
                fields=["operation", "position"], name="jobs_operationitem_one_position"
            ),
        )
        indexes = (
            models.Index(
                fields=["operation", "position"],
                condition=Q(outcome="pending"),
                name="jobs_operationitem_pending",
            ),
        )

    def __str__(self) -> str:
        return f"{self.position}. {self.object_id}: {self.outcome}"
