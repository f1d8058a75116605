"""Firedoor as its users meet it: ``enqueue_many``, its tables, its own settings."""

import os
import uuid

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
django.setup()

from django.db import connection  # noqa: E402

from benchmarks import kinds  # noqa: E402
from config.celery import app  # noqa: E402
from jobs.enqueue import enqueue_many  # noqa: E402
from jobs.models import Job  # noqa: E402
from jobs.states import State  # noqa: E402
from workspaces.models import Workspace  # noqa: E402

KINDS = {
    "noop": kinds.noop,
    "one_step": kinds.one_step,
    "three_steps": kinds.three_steps,
    "held": kinds.held,
}


def clear() -> None:
    """Forget every job and every message."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_job, jobs_event CASCADE")
    app.control.purge()


def enqueue(task: str, count: int) -> None:
    """All in one call."""
    workspace, _made = Workspace.objects.get_or_create(slug="bench", name="bench")
    kind, batch = KINDS[task], uuid.uuid4().hex
    intents = [(kind.s(), f"{batch}-{number:06}") for number in range(count)]
    if not all(job.created for job in enqueue_many(intents, workspace=workspace)):
        raise RuntimeError("a key was taken already")


def finished() -> int | None:
    """The jobs that succeeded."""
    return Job.objects.filter(state=State.SUCCEEDED).count()


def holder() -> int:
    """The process that runs a job now, if its worker is on this machine."""
    return int(Job.objects.get(state=State.RUNNING).worker.split("/")[3])


def held_lease() -> float:
    """The lease of the kind that is held, in seconds."""
    return kinds.held.spec.lease.total_seconds()
