"""The durable record of one intent."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from jobs.models.ids import uuid7
from jobs.states import FINAL, Cause, State, WaitReason
from workspaces.models import Workspace
from workspaces.models.newest import NewestFirst


def _words(values: type[State] | type[Cause] | type[WaitReason]) -> list[tuple[str, str]]:
    return [(value.value, value.value.replace("_", " ")) for value in values]


# A dead letter: what ended dead, and nobody has resolved or retried.
DEAD_LETTER = Q(state="dead", resolved_at__isnull=True, retried_at__isnull=True)
_FINAL = sorted(state.value for state in FINAL)  # a set's order would change the migrations


class Job(models.Model):
    """One intent. ``(workspace, kind, key)`` is unique among jobs that are not retries.

    Rows are moved by ``jobs.moves`` alone; everything else reads. While an attempt runs it lives
    in this row (``attempt worker started_at lease_until kill_at``). ``retried_at`` is set together
    with the insertion of its successor, so that an index knows the dead letters.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    kind = models.CharField(max_length=100)
    key = models.CharField(max_length=255)
    params = models.JSONField()
    params_digest = models.CharField(max_length=64)
    version = models.IntegerField(db_default=1)
    queue = models.CharField(max_length=50)
    gate = models.CharField(max_length=200, blank=True, db_default="")

    state = models.CharField(max_length=10, choices=_words(State), db_default=State.QUEUED.value)
    cause = models.CharField(max_length=12, choices=_words(Cause), blank=True, db_default="")
    run_at = models.DateTimeField(db_default=Now())
    wake_at = models.DateTimeField(db_default=Now())
    wait_reason = models.CharField(
        max_length=12, choices=_words(WaitReason), blank=True, db_default=""
    )
    wait_since = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True)

    attempt = models.IntegerField(db_default=0)
    failures = models.IntegerField(db_default=0)
    losses = models.IntegerField(db_default=0)
    deferrals = models.IntegerField(db_default=0)
    worker = models.CharField(max_length=200, blank=True, db_default="")
    started_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    kill_at = models.DateTimeField(null=True, blank=True)

    publishes = models.IntegerField(db_default=0)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    progress = models.JSONField(null=True, blank=True)
    result = models.JSONField(null=True, blank=True)

    retry_of = models.OneToOneField(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="successor"
    )
    root_id = models.UUIDField()
    epoch = models.IntegerField(db_default=0)
    mode = models.CharField(max_length=10, blank=True, db_default="")
    retried_at = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolution = models.TextField(blank=True, db_default="")
    actor = models.CharField(max_length=150)
    request_id = models.CharField(max_length=128, blank=True, db_default="")
    traceparent = models.CharField(max_length=64, blank=True, db_default="")
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)

    created: bool = False  # not a column: whether the call that returned this object made the row

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["workspace", "kind", "key"],
                condition=Q(retry_of__isnull=True),
                name="jobs_job_one_intent",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in State]), name="jobs_job_known_state"
            ),
            models.CheckConstraint(
                condition=Q(state="running", lease_until__isnull=False)
                | (~Q(state="running") & Q(lease_until__isnull=True)),
                name="jobs_job_running_has_lease",
            ),
            models.CheckConstraint(
                condition=Q(state__in=_FINAL, finished_at__isnull=False)
                | (~Q(state__in=_FINAL) & Q(finished_at__isnull=True)),
                name="jobs_job_final_is_finished",
            ),
            models.CheckConstraint(
                condition=(Q(state="dead") & ~Q(cause="")) | (~Q(state="dead") & Q(cause="")),
                name="jobs_job_dead_has_cause",
            ),
        )
        indexes = (
            models.Index(fields=["wake_at"], condition=Q(state="queued"), name="jobs_job_to_wake"),
            models.Index(
                fields=["deadline_at"],
                condition=Q(state="queued", deadline_at__isnull=False),
                name="jobs_job_to_bury",
            ),
            # For kinds with a share per workspace: what each workspace has waiting.
            models.Index(
                fields=["kind", "workspace", "wake_at"],
                condition=Q(state="queued"),
                name="jobs_job_to_share",
            ),
            # For gates that let one job through, and for kinds with a share behind each gate. By a
            # condition that no other index has, so that none is taken for it (ADR 29).
            models.Index(
                fields=["gate", "workspace", "wake_at"],
                condition=Q(finished_at__isnull=True) & ~Q(gate=""),
                name="jobs_job_behind_gate",
            ),
            models.Index(
                fields=["wait_since"],
                condition=Q(state="queued", wait_reason="unstartable"),
                name="jobs_job_unstartable",
            ),
            # By id, so that lease renewals touch no indexed column and stay HOT updates.
            models.Index(fields=["id"], condition=Q(state="running"), name="jobs_job_to_reap"),
            models.Index(
                fields=["workspace", "-finished_at"],
                condition=DEAD_LETTER,
                name="jobs_job_dead_letters",
            ),
            # Lists of the API, newest first (ADR 13). Of these only the first costs a job that
            # goes well: one entry for each time it is queued.
            models.Index(
                F("workspace"),
                F("state"),
                NewestFirst(),
                condition=Q(state__in=["queued", "dead", "cancelled"]),
                name="jobs_job_in_state",
            ),
            models.Index(
                F("workspace"), NewestFirst(), condition=DEAD_LETTER, name="jobs_job_letters"
            ),
            models.Index(
                F("workspace"),
                NewestFirst(),
                condition=Q(cause="uncertain"),
                name="jobs_job_uncertain",
            ),
            models.Index(
                F("workspace"),
                F("request_id"),
                NewestFirst(),
                condition=~Q(request_id=""),
                name="jobs_job_of_request",
            ),
            models.Index(F("workspace"), NewestFirst(), name="jobs_job_newest"),
            models.Index(fields=["root_id"], name="jobs_job_chain"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"

    @property
    def final(self) -> bool:
        return self.state in FINAL


class DeadLetter(Job):
    """A job that ended dead and is neither resolved nor retried (a view of the same row)."""

    class Meta:
        proxy = True
        verbose_name = "dead letter"
