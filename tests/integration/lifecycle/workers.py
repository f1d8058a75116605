"""A worker process that a test may kill, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from jobs.models import Job, Step
from jobs.states import State
from jobs.sweep import sweep
from provisioning.lifecycle.folders import Bench
from provisioning.terraform import host, records
from provisioning.terraform.apply import RUN
from provisioning.terraform.fate import start_of

ROOT = Path(__file__).parents[3]
_RUN = """
import sys, os, signal, uuid, django
django.setup()
from jobs import runner
{before}
runner.execute("provisioning.provision", uuid.UUID(sys.argv[1]))
"""
DIES_BEFORE_THE_START = """
from provisioning.lifecycle import steps
steps.applying.apply = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
"""


@contextmanager
def worker(job: Job, *, before: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own that makes one attempt of the job, in this test's database."""
    url = urlsplit(os.environ["DATABASE_URL"])
    environ = {
        **os.environ,
        "DATABASE_URL": url._replace(path=f"/{connection.settings_dict['NAME']}").geturl(),
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "FIREDOOR_VAR": str(settings.FIREDOOR_EXAMPLES),
        "REGISTRY_URL": settings.FIREDOOR_REGISTRY_URL or "",
    }
    command = [sys.executable, "-c", _RUN.format(before=before), str(job.pk)]
    process = subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def reaped(job: Job) -> Job:
    """The job after its lease has run out, which the upkeep pass notices."""
    late = Now() - timedelta(seconds=1)
    Job.objects.filter(pk=job.pk, state=State.RUNNING).update(lease_until=late)
    sweep(reap_now=True)
    job.refresh_from_db()
    return job


def run_of(job: Job, attempt: int = 1) -> Path:
    """The records of an apply."""
    return Bench(job.root_id, job.pk, attempt).apply / RUN


def has_intent(job: Job) -> bool:
    return Step.objects.filter(job_id=job.pk, name="apply", state="started").exists()


def kill_all_of(run: Path) -> None:
    """SIGKILL the supervisor, the tool and all that it started, as when a machine dies."""
    start = start_of(run)
    assert start is not None
    for pid in (start.supervisor.pid, *host.members(start.supervisor, start.marker)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def has_ended(run: Path) -> bool:
    return (run / records.EXIT).exists()
