"""``make test`` runs what ARGS names, in each of its parts, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALL = {
    "fast": "tests",
    "sqlite": "tests",
    "acceptance": "tests/acceptance",
    "console": "tests/console",
}


def parts(arguments: str) -> dict[str, str]:
    """What each part would run, by its name."""
    command = ["make", "--dry-run", "test", f"ARGS={arguments}", "CHROMIUM=/usr/bin/chromium"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {}
    for line in said.splitlines():
        if match := re.search(r"pytest \"\$@\" (.*?) *\|\|.*run (.*)$", line):
            found[_name(line)] = f"{_paths(match[2])} {match[1]}".strip()
    return found


def _name(line: str) -> str:
    if "FIREDOOR_TEST_DB=sqlite" in line:
        return "sqlite"
    if "export CHROMIUM" in line:
        return "console"
    return "fast" if "--ignore=tests/acceptance" in line else "acceptance"


def _paths(words: str) -> str:
    return " ".join(word for word in words.split() if word.startswith("tests"))


@pytest.mark.parametrize(
    ("arguments", "run"),
    [
        ("", ALL),
        ("tests", ALL),
        ("tests/unit", {"fast": "tests/unit", "sqlite": "tests/unit"}),
        (
            "./tests/unit/test_env.py::test_x -x",
            dict.fromkeys(("fast", "sqlite"), "tests/unit/test_env.py::test_x -x"),
        ),
        (
            "tests/acceptance/test_web.py tests/console",
            {
                "sqlite": "tests/acceptance/test_web.py",
                "acceptance": "tests/acceptance/test_web.py",
                "console": "tests/console",
            },
        ),
        (  # of one folder together
            "tests/unit/a/test_b.py tests/unit/test_c.py tests/unit/a/test_d.py",
            dict.fromkeys(
                ("fast", "sqlite"),
                "tests/unit/a/test_b.py tests/unit/a/test_d.py tests/unit/test_c.py",
            ),
        ),
        ("-k 'a or b'", {name: f"{path} -k 'a or b'" for name, path in ALL.items()}),
    ],
)
def test_paths_narrow_every_part(arguments: str, run: dict[str, str]) -> None:
    assert parts(arguments) == run
