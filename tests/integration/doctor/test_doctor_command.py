"""The command: its exit code, its line of JSON, its page, and that nothing stops it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Now

from config.doctor.answer import Answer, Level, fail, ok, warn, worst
from config.doctor.check import Check
from config.doctor.examine import _ORDER, examine, questions
from config.doctor.page import page
from config.doctor.sight import Sight
from jobs.models import Upkeep
from jobs.sweep import UPKEEP
from workspaces.models import Workspace

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "runbooks" / "doctor.md"

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        call_command("worker_doctor", *words)
    assert isinstance(left.value.code, int)
    return left.value.code, capsys.readouterr().out


def planted(monkeypatch: pytest.MonkeyPatch, answer: Answer | Exception) -> None:
    """Leave the doctor one question, and this answer to it."""

    def ask(_sight: Sight) -> Answer:
        if isinstance(answer, Exception):
            raise answer
        return answer

    ask.__module__ = _ORDER[0].__name__
    one = Check("planted.question", "", "helps ROW --so", ask)
    monkeypatch.setattr("config.doctor.examine.CHECKS", {one.code: one})


@pytest.mark.parametrize(
    ("answer", "code"), [(ok("fine"), 0), (warn("so so", ["a"]), 1), (fail("bad", ["a"]), 2)]
)
def test_the_exit_code_is_the_worst_level(
    answer: Answer, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, answer)
    left, out = run(capsys)
    assert left == code
    assert answer.sentence in out
    assert ("→ helps a --so" in out) == (code > 0)


def test_json_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, warn("two\nlines", ["a", "b"]))
    left, out = run(capsys, "--json")
    assert (left, out.count("\n")) == (1, 1)
    assert json.loads(out) == {
        "level": "warn",
        "findings": [
            {
                "code": "planted.question",
                "level": "warn",
                "sentence": "two\nlines",
                "command": "helps a --so",
                "rows": ["a", "b"],
            }
        ],
    }


def test_a_question_that_breaks_is_a_finding_without_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, RuntimeError("redis://app:hunter22-canary@broker is odd"))
    left, out = run(capsys, "--json")
    assert left == 2
    assert "could not be asked: RuntimeError" in out
    assert "canary" not in out


def test_a_level_is_worse_than_another() -> None:
    assert worst([]) is Level.OK
    assert worst([Level.OK, Level.FAIL, Level.WARN]) is Level.FAIL
    assert worst([Level.WARN, Level.OK]) is Level.WARN


def test_every_question_asks_explains_and_helps() -> None:
    known = {check.code for check in questions()}
    for check in questions():
        assert re.fullmatch(r"[a-z]+\.[a-z_]+", check.code)
        assert check.question.endswith("?"), check.code
        assert len(check.meaning) > 60, check.code
        assert check.command.split()[0] in {"manage.py", "celery", "redis-cli", "timedatectl"}
        assert check.needs in known | {""}
    order = [check.code for check in questions()]
    assert all(order.index(c.needs) < order.index(c.code) for c in questions() if c.needs)


def test_the_page_is_the_questions() -> None:
    assert PAGE.read_text() == page(), "run: manage.py worker_doctor --page > " + str(PAGE)


def test_the_doctor_changes_nothing_and_lets_queries_run(acme: Workspace) -> None:
    Upkeep.objects.create(name=UPKEEP, passed_at=Now(), by="a test")
    before = list(Upkeep.objects.values())
    examine()
    assert list(Upkeep.objects.values()) == before
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone() == ("0",)


def test_inline_mode_asks_nothing_about_a_broker(tmp_path: Path) -> None:
    environment: dict[str, Any] = {
        "PATH": "/usr/bin:/bin",
        "FIREDOOR_ENVIRONMENT": "test",
        "FIREDOOR_VAR": str(tmp_path),
    }
    manage = [sys.executable, str(ROOT / "manage.py")]
    subprocess.run([*manage, "migrate", "-v0"], env=environment, check=True)
    subprocess.run([*manage, "sweep"], env=environment, check=True, capture_output=True)
    done = subprocess.run(
        [*manage, "worker_doctor", "--json"], env=environment, capture_output=True, check=False
    )
    told = json.loads(done.stdout)
    assert (done.returncode, told["level"]) == (0, "ok"), told
    codes = {finding["code"] for finding in told["findings"]}
    assert "jobs.unpublished" in codes
    assert not {code for code in codes if code.split(".")[0] in ("broker", "workers", "queues")}
