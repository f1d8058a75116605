"""When the upkeep pass last ran."""

from __future__ import annotations

from django.db import models


class Upkeep(models.Model):
    """One row, shared by all beats: the age of ``passed_at`` is the health of the platform."""

    name = models.CharField(max_length=30, primary_key=True)
    passed_at = models.DateTimeField()
    by = models.CharField(max_length=200)

    class Meta:
        verbose_name_plural = "upkeep"

    def __str__(self) -> str:
        return f"{self.name} passed {self.passed_at:%Y-%m-%d %H:%M:%S}"
