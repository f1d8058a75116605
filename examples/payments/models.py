"""What our side keeps about payments."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from workspaces.models import Workspace


class Order(models.Model):
    """Something to be paid, owned by one workspace. ``job_id`` is the newest job of its chain."""

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="+")
    reference = models.CharField(max_length=200)
    cents = models.PositiveIntegerField()
    job_id = models.UUIDField(editable=False)
    withdrawn_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["workspace", "reference"], name="payments_order_once_per_workspace"
            )
        ]

    def __str__(self) -> str:
        return self.reference


class Booking(models.Model):
    """One payment in our books. Not unique on purpose: booked twice would have to show."""

    payment = models.CharField(max_length=200, db_index=True)
    booked_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.payment
