"""What the bare view writes: a table like any other, with one index, its primary key's."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class Row(models.Model):
    """One row; no migration makes it, but ``migrate --run-syncdb``."""

    order_id = models.CharField(max_length=100)
    cents = models.IntegerField()
    created_at = models.DateTimeField(db_default=Now())

    objects: ClassVar[models.Manager[Row]] = models.Manager()

    def __str__(self) -> str:
        return self.order_id
