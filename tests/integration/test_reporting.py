"""What one process reports, each tried in a process of its own against a Sentry of the test's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.sentry import Sentry, sentry

ROOT = Path(__file__).parents[2]
CANARY = "4111-canary-1111"
MAKE_ACME = (
    "from workspaces.models import Workspace; Workspace.objects.create(slug='acme', name='A')"
)
SCRIPT = """
import django
django.setup()
import logging, sentry_sdk
from structlog.contextvars import bound_contextvars
from workspaces.errors import WorkspaceClosed
"""


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("var")
    manage(folder, "", "migrate", "-v0")
    manage(folder, "", "shell", "-v0", "-c", MAKE_ACME)
    return folder


@pytest.fixture
def reports() -> Iterator[Sentry]:
    with sentry() as told:
        yield told


def run(folder: Path, dsn: str, *words: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "FIREDOOR_ENVIRONMENT": "test",
        "FIREDOOR_EXTRA_APPS": "tests.drills",
        "FIREDOOR_VAR": str(folder),
        **({"SENTRY_DSN": dsn} if dsn else {}),
    }
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def manage(folder: Path, dsn: str, *words: str) -> str:
    return run(folder, dsn, "manage.py", *words)


def script(folder: Path, reports: Sentry, text: str) -> None:
    run(folder, reports.dsn, "-c", SCRIPT + text + "\nsentry_sdk.flush()")


def enqueued(folder: Path, dsn: str, kind: str, **params: object) -> Any:
    """The job that a command enqueued and ran: its last line, after what handlers print."""
    words = ("job", "enqueue", kind, "--workspace", "acme", "--key", uuid.uuid4().hex, "--json")
    return json.loads(manage(folder, dsn, *words, "--params", json.dumps(params)).splitlines()[-1])


def test_a_command_whose_job_dies_reports_it_without_its_own_words(
    migrated: Path, reports: Sentry
) -> None:
    card = {"number": CANARY}
    job = enqueued(migrated, reports.dsn, "drills.talkative", card=card, fault="terminal")
    assert job["state"] == "dead"
    assert [event["tags"]["job_id"] for event in reports.events] == [job["id"]]
    assert CANARY not in "".join(reports.raw)


def test_without_a_dsn_nothing_is_sent_and_nothing_fails(migrated: Path) -> None:
    card = {"number": CANARY}
    assert (
        enqueued(migrated, "", "drills.talkative", card=card, fault="terminal")["state"] == "dead"
    )


def test_what_a_loop_logs_every_second_is_reported_once_a_minute(
    migrated: Path, reports: Sentry
) -> None:
    script(
        migrated,
        reports,
        """
for error in (ValueError("a"), ValueError("b"), KeyError("c")):
    try:
        raise error
    except Exception:
        logging.getLogger("jobs.beat").exception("beat.pass_failed")
""",
    )
    assert sorted(event["exception"]["values"][0]["type"] for event in reports.events) == [
        "KeyError",
        "ValueError",
    ]


def test_a_refusal_is_no_report_unless_somebody_logs_it(migrated: Path, reports: Sentry) -> None:
    script(
        migrated,
        reports,
        """
try:
    raise WorkspaceClosed("acme")
except WorkspaceClosed as refusal:
    sentry_sdk.capture_exception(refusal)
    logging.getLogger("jobs.sweep").exception("sweep.row_failed")
""",
    )
    assert [event["logger"] for event in reports.events] == ["jobs.sweep"]


def test_a_fault_in_a_request_is_known_by_its_id_and_shows_no_token(
    migrated: Path, reports: Sentry
) -> None:
    script(
        migrated,
        reports,
        """
from django.test import Client
from workspaces import service_accounts, tokens
from workspaces.actors import SYSTEM
from workspaces.api.workspaces import WorkspaceDetail
from workspaces.models import Workspace
from workspaces.permissions import Role
acme = Workspace.objects.get(slug="acme")
account = service_accounts.create("reporting", role=Role.VIEWER, workspace=acme, actor=SYSTEM)
_token, secret = tokens.issue(account, actor=SYSTEM)

def broken(*_args, **_kwargs):
    raise RuntimeError("a fault of ours")

WorkspaceDetail.get = broken
headers = {"Authorization": f"Bearer {secret}", "X-Request-ID": "request-42"}
answer = Client(raise_request_exception=False, HTTP_HOST="localhost").get(
    "/api/v1/workspaces/acme/", headers=headers
)
assert answer.status_code == 500, answer.content
""",
    )
    (event,) = reports.events
    assert event["logentry"]["message"] == "api.failed"
    assert event["exception"]["values"][-1]["value"] == "a fault of ours"
    assert event["tags"]["request_id"] == "request-42"
    assert "fdr_" not in json.dumps(event)


def test_inside_an_attempt_only_the_platform_is_heard_and_names_the_job(
    migrated: Path, reports: Sentry
) -> None:
    script(
        migrated,
        reports,
        """
with bound_contextvars(job_id="1", kind="a.kind", attempt=2, workspace=3):
    logging.getLogger("jobs.run.a.kind").error("said by a handler")
    logging.getLogger("boto3").error("said by a library")
    try:
        raise ValueError("caught by a handler")
    except ValueError as error:
        sentry_sdk.capture_exception(error)
    sentry_sdk.add_breadcrumb(message="a crumb of the job")
    logging.getLogger("jobs.events").error("event.receiver_failed")
logging.getLogger("boto3").error("said outside")
""",
    )
    said = [event["logentry"]["message"] for event in reports.events]
    assert said == ["event.receiver_failed", "said outside"]
    first = reports.events[0]
    assert first["tags"] == {"job_id": "1", "kind": "a.kind", "attempt": "2", "workspace": "3"}
    assert "a crumb of the job" not in json.dumps(first)


def test_work_that_goes_well_sends_nothing_at_all(migrated: Path, reports: Sentry) -> None:
    assert enqueued(migrated, reports.dsn, "drills.noop")["state"] == "succeeded"
    manage(migrated, reports.dsn, "sweep")
    assert reports.raw == []
