"""What is kept of webhooks: endpoints and their secrets, messages, deliveries, what came back."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from jobs.models.ids import uuid7
from webhooks.states import SLOW, DeliveryState, EndpointState, Trigger
from workspaces.models import Workspace
from workspaces.models.newest import NewestFirst

if TYPE_CHECKING:
    from collections.abc import Iterable

GATE = "endpoint:"


def _choices(words: Iterable[StrEnum]) -> list[tuple[str, str]]:
    return [(word.value, word.value) for word in words]


class Endpoint(models.Model):
    """Where events of a workspace are sent. Never deleted: its deliveries are evidence.

    ``failures`` are the deliveries that died since its last 2xx, ``first_failed_at`` and
    ``last_failed_at`` the first and last of them. ``headers`` are the tenant's own, sealed.
    ``delays`` (seconds, null for the kind's) are the waits before the second and third request.
    ``full_said_at`` is when it was last said that too many wait for it; null while that is not so.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    url = models.CharField(max_length=2048)
    description = models.CharField(max_length=200, blank=True, default="")
    events = models.JSONField(default=list)
    headers = models.TextField(blank=True, default="")
    delays = models.JSONField(null=True, blank=True)
    state = models.CharField(
        max_length=10, choices=_choices(EndpointState), default=EndpointState.ACTIVE.value
    )
    reason = models.CharField(max_length=20, blank=True, default="")
    state_since = models.DateTimeField(db_default=Now())
    lane = models.CharField(max_length=50, default=SLOW)
    failures = models.IntegerField(default=0)
    first_failed_at = models.DateTimeField(null=True, blank=True)
    last_failed_at = models.DateTimeField(null=True, blank=True)
    full_said_at = models.DateTimeField(null=True, blank=True)
    actor = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(state="disabled") & ~Q(reason="") | ~Q(state="disabled") & Q(reason=""),
                name="webhooks_endpoint_disabled_has_reason",
            ),
        )
        indexes = (models.Index(F("workspace"), NewestFirst(), name="webhooks_endpoint_newest"),)

    def __str__(self) -> str:
        return self.description or str(self.pk)

    @property
    def gate(self) -> str:
        """The gate that its deliveries stand behind."""
        return f"{GATE}{self.pk}"


class EndpointSecret(models.Model):
    """One signing secret, sealed. Without ``expires_at`` it is the newest; at most one is."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="secrets")
    sealed = models.TextField()
    hint = models.CharField(max_length=4)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["endpoint"], condition=Q(expires_at=None), name="webhooks_secret_one_newest"
            ),
        )

    def __str__(self) -> str:
        return f"…{self.hint}"


class Message(models.Model):
    """One event as it is told to all: the same id and the same bytes, whoever and whenever."""

    id = models.CharField(primary_key=True, max_length=40)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    event_id = models.BigIntegerField(null=True, blank=True, unique=True)
    type = models.CharField(max_length=60)
    body = models.BinaryField()
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.id


class WebhookDelivery(models.Model):
    """One message for one endpoint. While ``status`` is ``open`` its newest job tells the rest.

    ``job_id`` is that job, ``sends`` how many it had: values, since deliveries outlive jobs.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.PROTECT, related_name="deliveries", db_index=False
    )
    message = models.ForeignKey(
        Message, on_delete=models.PROTECT, related_name="deliveries", db_index=False
    )
    status = models.CharField(
        max_length=10, choices=_choices(DeliveryState), default=DeliveryState.OPEN.value
    )
    job_id = models.UUIDField(null=True, blank=True)
    sends = models.IntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "delivery"
        verbose_name_plural = "deliveries"
        constraints = (
            models.UniqueConstraint(
                fields=["message", "endpoint"], name="webhooks_delivery_once_for_each"
            ),
            models.UniqueConstraint(
                fields=["job_id"], condition=Q(job_id__isnull=False), name="webhooks_delivery_job"
            ),
        )
        indexes = (
            models.Index(F("workspace"), NewestFirst(), name="webhooks_delivery_newest"),
            models.Index(F("endpoint"), F("status"), NewestFirst(), name="webhooks_delivery_of"),
        )

    def __str__(self) -> str:
        return f"{self.message_id} for {self.endpoint_id}"


class DeliveryAttempt(models.Model):
    """What one request brought. A request that was cut off by a crash has none: its job says so.

    ``headers`` are a few of the answer's, ``excerpt`` the beginning of its body as text; both are
    what somebody else wrote.
    """

    delivery = models.ForeignKey(WebhookDelivery, on_delete=models.CASCADE, related_name="attempts")
    job_id = models.UUIDField()
    number = models.IntegerField()
    trigger = models.CharField(max_length=10, choices=_choices(Trigger))
    url = models.CharField(max_length=2048)
    code = models.CharField(max_length=20)
    status_code = models.IntegerField(null=True, blank=True)
    headers = models.JSONField(default=dict)
    excerpt = models.TextField(blank=True, default="")
    milliseconds = models.IntegerField()
    ended_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name = "attempt"
        constraints = (
            models.UniqueConstraint(fields=["job_id", "number"], name="webhooks_attempt_once"),
        )

    def __str__(self) -> str:
        return f"{self.number}: {self.code}"
