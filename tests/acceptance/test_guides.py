"""The guides hold: their code is the code that runs, and their commands do what they say."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from examples.payments import ledger

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)
BOUND = 240  # seconds; some ten commands, each a process that starts Django
UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


pytestmark = pytest.mark.timeout(BOUND + 30)


def blocks(guide: str, language: str) -> list[tuple[str, str]]:
    """File and text of each code block of a guide in one language."""
    found = BLOCK.findall((GUIDES / guide).read_text())
    return [(file, text) for kind, file, text in found if kind == language]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder that looks like the repository to somebody who follows a guide."""
    (tmp_path / "manage.py").symlink_to(ROOT / "manage.py")
    (tmp_path / "var").mkdir()
    environment = tmp_path / ".venv" / "bin"
    environment.mkdir(parents=True)
    (environment / "activate").symlink_to(Path(sys.prefix) / "bin" / "activate")
    return tmp_path


def followed(guide: str, house: Path, port: int = 8810) -> str:
    """What a shell prints that is given all commands of a guide; ``ID`` is the last id printed."""
    commands = "\n".join(text for _, text in blocks(guide, "sh"))
    commands = re.sub(r"^(python manage.py job .*)$", r"\1 | tee -a printed", commands, flags=re.M)
    commands = re.sub(r"\bID\b", f'$(grep -oE "^{UUID}" printed | tail -n 1)', commands)
    script = f"set -euo pipefail; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{commands}"
    answer = subprocess.run(
        ["/bin/bash", "-c", script.replace("8810", str(port))],
        cwd=house,
        env=environment(house),
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def environment(house: Path) -> dict[str, str]:
    """A fresh machine's: no services, our Python first."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{house}:{ROOT}",
        "FIREDOOR_VAR": str(house / "var"),
        "HOME": str(house),
    }


def test_the_code_of_the_first_guide_is_the_code_that_runs() -> None:
    quoted = blocks("first-kind.md", "python")

    assert len(quoted) > 5
    assert [file for file, text in quoted if text not in (ROOT / file).read_text()] == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="the guide uses curl")
def test_following_the_first_guide_charges_once_in_spite_of_a_502(house: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    printed = followed("first-kind.md", house, port)

    assert "attempt 1: failed; http_502" in printed
    assert "attempt 2: succeeded" in printed
    assert ledger.counts(house / "var" / "payments.jsonl") == Counter(hold=1, charge=1, receipt=1)


def test_following_the_second_guide_makes_a_kind_that_posts_once(house: Path) -> None:
    (house / "bulletin").mkdir()
    (house / "bulletin" / "__init__.py").touch()
    for file, text in blocks("add-a-job-kind.md", "python"):
        (house / file).write_text(text)

    printed = followed("add-a-job-kind.md", house)

    assert "dead(terminal)" in printed
    assert "step compose (repeatable): done, kept from job" in printed
    assert (house / "var" / "board.txt").read_text() == "[notice-1] Water is off on Monday.\n"
    assert (house / "var" / "town" / "board.txt").read_text() == "[notice-2] Water is back.\n"
