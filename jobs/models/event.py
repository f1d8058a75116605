"""What happened, for whoever listens: the outbox of the one bus."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workspaces.models import Workspace


class Event(models.Model):
    """One event, written in the transaction of what it tells of.

    ``delivered_at`` is set once every receiver has returned; until then the sweeper delivers it
    again, so a receiver may see an event twice and must be idempotent by ``id``.
    """

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    type = models.CharField(max_length=60)
    subject = models.CharField(max_length=100)
    data = models.JSONField()
    created_at = models.DateTimeField(db_default=Now())
    delivered_at = models.DateTimeField(null=True, blank=True)
    tries = models.IntegerField(db_default=0)
    error = models.TextField(blank=True, db_default="")

    class Meta:
        indexes = (
            models.Index(fields=["subject", "id"], name="jobs_event_of_subject"),
            models.Index(
                fields=["id"], condition=Q(delivered_at__isnull=True), name="jobs_event_undelivered"
            ),
        )

    def __str__(self) -> str:
        return f"{self.type} {self.subject}"
