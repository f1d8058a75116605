"""A command whose database cannot be used ends in a sentence that says what was not done."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from config import command_line
from config.env import ROOT

pytestmark = pytest.mark.timeout(240)

NOBODY = "postgresql://ana:hunter2@127.0.0.1:1/firedoor"
COMMANDS = (
    "migrate",
    "demo",
    "job list",
    "createtoken --workspace acme --name billing --role operator",
)


def asked(
    command: str, *, largest: int = resource.RLIM_INFINITY, **variables: str
) -> subprocess.CompletedProcess[str]:
    """What a command said; no file that it writes grows beyond ``largest`` bytes."""
    return subprocess.run(
        [sys.executable, "manage.py", *command.split()],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "FIREDOOR_ENVIRONMENT": "local", **variables},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest)),
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_database_that_does_not_answer_is_said_in_a_sentence(
    command: str, tmp_path: Path
) -> None:
    done = asked(command, FIREDOOR_VAR=str(tmp_path), DATABASE_URL=NOBODY)
    assert done.returncode == 1
    first = f"{command.split()[0]} ended early: the database cannot be used now."
    assert done.stderr.startswith(first), done.stderr
    assert "the rest was not done. Check DATABASE_URL" in done.stderr
    assert "Connection refused" in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS[2:])
def test_a_database_without_its_tables_names_the_command_that_makes_them(
    command: str, tmp_path: Path
) -> None:
    done = asked(command, FIREDOOR_VAR=str(tmp_path))
    assert done.returncode == 1
    assert "the database lacks what this version needs. What it had written stays" in done.stderr
    assert "Run manage.py migrate first." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", COMMANDS[:2])
def test_a_full_disk_is_said_in_a_sentence(command: str, tmp_path: Path) -> None:
    if command != "migrate":
        assert asked("migrate --verbosity 0", FIREDOOR_VAR=str(tmp_path)).returncode == 0
    done = asked(command, FIREDOOR_VAR=str(tmp_path), largest=100_000)
    assert done.returncode == 1
    assert f"{command} ended early: the database cannot be used now." in done.stderr
    assert "that its disk has room" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.django_db
def test_who_met_others_is_not_sent_to_look_after_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deadlocked(_argv: list[str]) -> None:
        with connection.cursor() as cursor:
            cursor.execute("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$")

    monkeypatch.setattr(command_line, "execute_from_command_line", deadlocked)
    with pytest.raises(SystemExit, match="others were at work on the same rows") as ended:
        command_line.run(["manage.py", "workspace", "close", "acme"])
    assert "the rest was not done. Run it again." in str(ended.value)
    assert "DATABASE_URL" not in str(ended.value)


def test_who_asks_for_the_traceback_gets_it(tmp_path: Path) -> None:
    done = asked("sweep --traceback", FIREDOOR_VAR=str(tmp_path), DATABASE_URL=NOBODY)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
