"""What authors of kinds may get wrong is refused by mypy before anything runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANTED = ROOT / "tests" / "fixtures" / "typed_face" / "planted.txt"
# What mypy knows from its cache it tells under the path of an earlier run.
REFUSED = re.compile(r"^(?:.*/)?planted\.py:(\d+): error: ", re.MULTILINE)


def planted() -> set[int]:
    """The lines of the mistakes."""
    lines = enumerate(PLANTED.read_text().splitlines(), 1)
    return {number for number, line in lines if line.endswith("# E")}


@pytest.mark.timeout(900)
def test_every_planted_mistake_is_refused_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(PLANTED.read_text())
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-pretty"),
            *(
                "--config-file",
                str(ROOT / "pyproject.toml"),
                "--cache-dir",
                str(ROOT / ".mypy_cache"),
            ),
            *("--no-error-summary", str(tmp_path / "planted.py")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    said = checked.stdout
    assert len(planted()) > 40
    assert set(map(int, REFUSED.findall(said))) == planted(), said + checked.stderr
