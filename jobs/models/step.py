"""A named checkpoint inside a job."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.models.job import Job
from jobs.states import Effect, Observation, StepState

# An intent without an outcome that nobody may simply send again.
OPEN = Q(state=StepState.STARTED.value, observed="", late_at__isnull=True, opens_at__lte=Now())


class Step(models.Model):
    """A checkpoint. ``done`` is never run again; ``started`` is an intent without an outcome.

    ``opens_at`` says from when on a started step counts as *open* (nobody knows whether its
    effect happened): at once for ``once``, after the provider's ``remembers`` for ``keyed``.
    ``attempt`` is the attempt that wrote the intent or the output; together with ``carried_from``
    (the job it was copied from) it names the writer.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="steps", db_index=False)
    name = models.CharField(max_length=120)
    effect = models.CharField(max_length=10, choices=[(e.value, e.value) for e in Effect])
    boundary = models.CharField(max_length=20, blank=True, db_default="")
    state = models.CharField(max_length=10, choices=[(s.value, s.value) for s in StepState])
    attempt = models.IntegerField()
    intent_at = models.DateTimeField(null=True, blank=True)
    opens_at = models.DateTimeField(null=True, blank=True)
    done_at = models.DateTimeField(null=True, blank=True)
    output = models.JSONField(null=True, blank=True)
    output_error = models.CharField(max_length=300, blank=True, db_default="")
    carried_from = models.UUIDField(null=True, blank=True)
    late_output = models.JSONField(null=True, blank=True)
    late_at = models.DateTimeField(null=True, blank=True)
    observed = models.CharField(
        max_length=14, blank=True, db_default="", choices=[(o.value, o.value) for o in Observation]
    )
    observed_output = models.JSONField(null=True, blank=True)
    observed_by = models.CharField(max_length=150, blank=True, db_default="")
    observed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["job", "name"], name="jobs_step_one_name"),)

    def __str__(self) -> str:
        return f"{self.name}: {self.state}"
