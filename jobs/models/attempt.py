"""One execution by one worker, written when it ends."""

from __future__ import annotations

from django.db import models

from jobs.models.job import Job
from jobs.states import AttemptOutcome


class Attempt(models.Model):
    """Evidence of one execution. An execution that only deferred leaves none.

    Texts are scrubbed before they are stored: ``message`` at most 2 kB, ``traceback`` 16 kB.
    ``delay`` is the wait chosen before the next attempt, in seconds.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.IntegerField()
    outcome = models.CharField(max_length=10, choices=[(o.value, o.value) for o in AttemptOutcome])
    classification = models.CharField(max_length=10, blank=True, db_default="")
    reason = models.CharField(max_length=300, blank=True, db_default="")
    step = models.CharField(max_length=120, blank=True, db_default="")
    error_class = models.CharField(max_length=200, blank=True, db_default="")
    message = models.TextField(blank=True, db_default="")
    traceback = models.TextField(blank=True, db_default="")
    fingerprint = models.CharField(max_length=32, blank=True, db_default="")
    delay = models.FloatField(null=True, blank=True)
    worker = models.CharField(max_length=200)
    started_at = models.DateTimeField()
    kill_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    cost = models.JSONField(null=True, blank=True)
    provider_request_id = models.CharField(max_length=200, blank=True, db_default="")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["job", "number"], name="jobs_attempt_one_number"),
        )

    def __str__(self) -> str:
        return f"attempt {self.number}: {self.outcome}"
