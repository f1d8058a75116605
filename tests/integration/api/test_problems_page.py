"""Every code is on one page, in the docs and where the addresses in problems lead."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from config import urls as _every_part_is_loaded  # noqa: F401
from workspaces.errors import FiredoorError
from workspaces.http.problems import catalogue, meaning_of

ROOT = Path(__file__).parents[3]
ERRORS = [error for error in catalogue() if not error.__module__.startswith("tests.")]
pytestmark = pytest.mark.sqlite


def test_the_page_in_the_docs_is_the_one_that_the_code_writes(tmp_path: Path) -> None:
    """Written by a process of its own, which knows no error of any test."""
    environment = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "FIREDOOR_VAR": str(tmp_path),
    }
    written = subprocess.run(
        [sys.executable, "-m", "config.problems"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ROOT / "docs/problems.md").read_text() == written.stdout


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_says_in_one_line_what_happened(error: type[FiredoorError]) -> None:
    assert re.fullmatch(r"[A-Z`].{10,}\.", meaning_of(error))
    assert re.fullmatch(r"[a-z_]+", error.code)
    assert 400 <= error.status < 600


def test_a_code_means_one_thing() -> None:
    twice = {code for code, times in Counter(error.code for error in ERRORS).items() if times > 1}
    assert twice == set()


@pytest.mark.django_db
def test_the_address_in_a_problem_leads_to_its_line(client: Client) -> None:
    answer: Any = client.get("/api/v1/workspaces/acme/jobs/")
    address, _, code = answer.json()["type"].partition("#")

    page = client.get(address)

    assert page.status_code == 200
    assert f'id="{code}"' in page.content.decode()
    assert "default-src 'none'" in page["Content-Security-Policy"]
    assert "unsafe" not in page["Content-Security-Policy"]
    assert b"<script" not in page.content
    assert client.post(address).status_code == 405
