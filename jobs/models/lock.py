"""What one job holds so that no other works on the same thing."""

from __future__ import annotations

from django.db import models

from jobs.models.job import Job
from workspaces.models import Workspace


class Lock(models.Model):
    """A name held by a job: while it runs; beyond that while it is uncertain, or by ``keep``."""

    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    name = models.CharField(max_length=200)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="locks")
    since = models.DateTimeField()
    keep = models.BooleanField(default=False)
    reason = models.CharField(max_length=300, blank=True, db_default="")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["workspace", "name"], name="jobs_lock_one_holder"),
        )

    def __str__(self) -> str:
        return f"{self.name} held by {self.job_id}"
