"""Does every queued job get its turn?"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from config.doctor.answer import Answer, Level
from config.doctor.check import check
from config.doctor.sight import Sight
from config.doctor.stuck import stuck
from jobs import registry
from jobs.gates import PLATFORM, behind_closed_gate
from jobs.models import Job
from jobs.states import State, WaitReason
from jobs.sweep import UNSTARTABLE_AFTER

PATIENCE = timedelta(minutes=1)
WAKES = 3  # the third one comes a minute and a half after the first
QUEUED = Job.objects.filter(state=State.QUEUED)


def _kinds_with(share: str) -> list[str]:
    return [spec.name for spec in registry.KINDS.values() if getattr(spec, share)]


def _share_in_use(*, gate: bool = False) -> Exists:
    """Whether a job of the same kind and workspace, or behind the same gate, is under way."""
    under_way = Q(state=State.RUNNING) | Q(state=State.QUEUED, publishes__gt=0, wake_at__gt=Now())
    same = Q(workspace_id=OuterRef("workspace_id"))
    if gate:
        same = Q(gate=OuterRef("gate")) & (same | Q(gate__startswith=PLATFORM))
    return Exists(Job.objects.filter(under_way, same, kind=OuterRef("kind")))


@check("jobs.unpublished", needs="database.migrations", command="manage.py sweep")
def unpublished(_sight: Sight) -> Answer:
    """Is every due job published?

    Upkeep publishes a due job within a second. One that is due for a minute and is not published
    says that no beat runs, or that it cannot reach the broker. In inline mode: that nothing drains.
    """
    long_ago = Now() - PATIENCE
    due = Q(run_at__lt=long_ago) if settings.FIREDOOR_INLINE else Q(wake_at__lt=long_ago)
    rows = QUEUED.filter(due, kind__in=list(registry.KINDS)).exclude(behind_closed_gate())
    rows = rows.exclude(Q(_share_in_use(), kind__in=_kinds_with("per_workspace")))
    rows = rows.exclude(Q(_share_in_use(gate=True), kind__in=_kinds_with("per_gate")))
    return stuck(
        rows,
        Level.FAIL,
        "due for over a minute, and nobody woke a worker for it.",
        "Every due job is published.",
    )


@check(
    "jobs.unclaimed",
    needs="database.migrations",
    command="celery -A config inspect active_queues",
)
def unclaimed(_sight: Sight) -> Answer:
    """Does a published job find a worker?

    It was published three times or more and nobody took it. Either its queue has a long honest
    backlog (add workers), or no worker serves the queue, or messages do not arrive.
    """
    rows = QUEUED.filter(publishes__gte=WAKES, run_at__lte=Now()).exclude(behind_closed_gate())
    rows = rows.exclude(wait_reason=WaitReason.UNSTARTABLE)
    return stuck(
        rows,
        Level.WARN,
        f"published {WAKES} times or more and never taken.",
        "Published jobs find workers.",
    )


@check("jobs.unstartable", needs="database.migrations", command="manage.py job show ROW")
def unstartable(_sight: Sight) -> Answer:
    """Is there a worker that can start each job?

    The worker that took it did not know its kind, or refused its params: an older worker during a
    deploy. If none can within an hour of the first refusal, the job is dead. Finish the deploy.
    """
    rows = QUEUED.filter(wait_reason=WaitReason.UNSTARTABLE)
    late = rows.filter(wait_since__lt=Now() - UNSTARTABLE_AFTER - PATIENCE)
    if late.exists():
        words = "could not be started for over an hour, and upkeep has not ended it."
        return stuck(late, Level.FAIL, words, "")
    return stuck(
        rows, Level.WARN, "met no worker that can start it.", "Every job met a worker that fits."
    )


@check("jobs.deadline_passed", needs="database.migrations", command="manage.py sweep")
def deadline_passed(_sight: Sight) -> Answer:
    """Are jobs ended whose deadline has passed?

    Nothing claims them any more. Upkeep makes them dead letters within a second; if it did not,
    no beat runs, or it meets an error on the row: see upkeep.faults.
    """
    return stuck(
        QUEUED.filter(deadline_at__lt=Now() - PATIENCE),
        Level.FAIL,
        "passed its deadline and is still queued.",
        "No queued job is past its deadline.",
    )


@check("jobs.unknown_kind", needs="database.migrations", command="manage.py job show ROW")
def unknown_kind(_sight: Sight) -> Answer:
    """Does this code know the kind of every job that is not over?

    Jobs and dead letters of a kind that was removed or renamed cannot run or be retried here.
    Kinds are named for ever: bring it back until its jobs are over, or resolve them.
    """
    over = Q(state__in=(State.SUCCEEDED, State.CANCELLED)) | Q(
        state=State.DEAD, resolved_at__isnull=False
    )
    retried = Exists(Job.objects.filter(retry_of_id=OuterRef("pk")))
    rows = Job.objects.exclude(over).exclude(retried).exclude(kind__in=list(registry.KINDS))
    return stuck(
        rows, Level.WARN, "of a kind that this code does not know.", "Every kind is known here."
    )
