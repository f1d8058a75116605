"""A planted secret reaches neither log lines nor Sentry, tried in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sentry import sentry

ROOT = Path(__file__).parents[2]
CANARY = "canary-5f1d0c77"
PLANTED = f"""
import django
django.setup()
import logging, sentry_sdk, structlog
leaks = {{
    "authorization": "Bearer {CANARY}",
    "nested": {{"password": "{CANARY}", "list": [{{"api_key": "{CANARY}"}}]}},
    "url": "postgresql://app:{CANARY}@db/firedoor",
    "odd": ValueError("token={CANARY}"),
}}
"""
LOGS = """
try:
    raise RuntimeError(leaks["odd"])
except RuntimeError:
    logging.getLogger("a.library").exception("it broke: %s", leaks["odd"], extra=leaks)
    structlog.get_logger("ours").exception("job.failed", **leaks)
logging.getLogger("a.library").error("wrong number of values %s", leaks["url"], leaks["odd"])
"""
REPORTS = """
sentry_sdk.set_context("job", leaks)
sentry_sdk.add_breadcrumb(message=str(leaks["odd"]))
try:
    raise RuntimeError(leaks["odd"])
except RuntimeError as error:
    sentry_sdk.capture_exception(error)
sentry_sdk.flush()
"""


def run(script: str, **variables: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "FIREDOOR_ENVIRONMENT": "test",
        "FIREDOOR_VAR": os.environ["FIREDOOR_VAR"],
        **variables,
    }
    done = subprocess.run(
        [sys.executable, "-c", PLANTED + script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_log_line_has_the_secret(style: str) -> None:
    written = run(LOGS, LOG_FORMAT=style)
    assert written.count("RuntimeError") == 2
    assert "job.failed" in written
    assert "it broke" in written
    assert CANARY not in written


def test_json_lines_are_json() -> None:
    written = run('structlog.get_logger("ours").info("two\\nlines", answer=42)', LOG_FORMAT="json")
    line = json.loads(written)
    assert (line["event"], line["answer"]) == ("two\nlines", 42)
    assert (line["level"], line["logger"]) == ("info", "ours")
    assert line["timestamp"].endswith("Z")


def test_sentry_gets_the_error_without_the_secret() -> None:
    with sentry() as reports:
        run(REPORTS, SENTRY_DSN=reports.dsn)
    (report,) = reports.raw
    assert "RuntimeError" in report
    assert "breadcrumbs" in report
    assert CANARY not in report
