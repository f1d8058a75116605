"""Firedoor behind its web server: the token that callers use, and what they left."""

import os

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.peers.web_settings"
django.setup()

from django.db import connection  # noqa: E402

from benchmarks.models import Row  # noqa: E402
from config.celery import app  # noqa: E402
from jobs.models import Job  # noqa: E402
from workspaces import service_accounts, tokens  # noqa: E402
from workspaces.actors import SYSTEM  # noqa: E402
from workspaces.models import Workspace  # noqa: E402
from workspaces.permissions import Role  # noqa: E402


def token() -> str:
    """One that may enqueue in the workspace ``bench`` and nowhere else."""
    workspace, _made = Workspace.objects.get_or_create(slug="bench", name="bench")
    account = service_accounts.create(
        "bench", role=Role.OPERATOR, workspace=workspace, actor=SYSTEM
    )
    return tokens.issue(account, actor=SYSTEM)[1]


def clear() -> None:
    """Forget every job, message, answer and row."""
    tables = "jobs_job, jobs_event, workspaces_idempotencyrecord, benchmarks_row"
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {tables} CASCADE")
    app.control.purge()


def left() -> list[int]:
    """How many rows and how many jobs there are."""
    return [Row.objects.count(), Job.objects.count()]
