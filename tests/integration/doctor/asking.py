"""How these tests ask the doctor, and how they bring a job where a question is about it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from config.doctor.answer import Level
from config.doctor.examine import Finding, examine
from jobs import moves
from jobs.models import Job
from jobs.worker import identity
from tests.drills.kinds import noop
from workspaces.models import Workspace


def asked(code: str) -> Finding:
    """What the doctor finds about one question."""
    return next(finding for finding in examine([code]) if finding.code == code)


def ago(**words: float) -> Any:
    """A moment in the past, by the database's clock."""
    return Now() - timedelta(**words)


def ahead(**words: float) -> Any:
    return Now() + timedelta(**words)


def queued(workspace: Workspace, key: str = "stuck", **moved: Any) -> Job:
    """A job that waits for an hour, moved by its columns."""
    job = noop.s().enqueue(workspace=workspace, key=key, countdown=3600)
    Job.objects.filter(pk=job.pk).update(**moved)
    return job


def running(workspace: Workspace, key: str = "stuck", **moved: Any) -> Job:
    """A job that this very process has claimed, moved by its columns."""
    job = queued(workspace, key, run_at=Now())
    assert moves.claim(job.pk, job.kind, worker=identity(), lease=60, time_limit=900)
    Job.objects.filter(pk=job.pk).update(**moved)
    return job


def is_about(finding: Finding, level: Level, job: Job, command: str) -> None:
    """Check that the finding is about this job alone and says which command helps."""
    assert (finding.level, finding.rows) == (level, (str(job.pk),)), finding
    assert finding.command == command.replace("ID", str(job.pk))


def is_well(code: str) -> None:
    finding = asked(code)
    assert (finding.level, finding.command, finding.rows) == (Level.OK, "", ()), finding
