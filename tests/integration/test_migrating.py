"""Two who migrate one fresh file at once: the second waits for the first."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(240)


def migrating(var: Path) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    return subprocess.Popen(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=ROOT,
        env={**kept, "FIREDOOR_VAR": str(var)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_second_waits_until_the_first_is_done(tmp_path: Path) -> None:
    database = tmp_path / "firedoor.sqlite3"
    with Path(f"{database}.migrating").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        with migrating(tmp_path) as second:
            assert second.stderr is not None
            assert "waiting for it" in second.stderr.readline()
            assert not database.exists() or database.stat().st_size == 0, "nothing was begun"
            fcntl.flock(first, fcntl.LOCK_UN)
            assert second.wait(200) == 0
    assert database.stat().st_size > 0
