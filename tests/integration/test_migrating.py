"""Two who migrate one fresh file at once: the second waits for the first."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.waiting import wait_until

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


def tables_in(database: Path) -> int:
    if not database.exists():
        return 0
    with closing(sqlite3.connect(database)) as connection:
        found: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return found


def waits_for_a_lock(pid: int) -> bool:
    lines = Path("/proc/locks").read_text().splitlines()
    return any("-> FLOCK" in line and f" {pid} " in line for line in lines)


def test_the_second_waits_until_the_first_is_done(tmp_path: Path) -> None:
    database = tmp_path / "firedoor.sqlite3"
    with Path(f"{database}.migrating").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = migrating(tmp_path)
        try:
            assert second.stderr is not None
            assert "waiting for it" in second.stderr.readline()
            pid = second.pid
            wait_until(lambda: waits_for_a_lock(pid), 60, "the second waits")
            assert tables_in(database) == 0, "nothing was begun"
            fcntl.flock(first, fcntl.LOCK_UN)
            assert second.wait(200) == 0
        finally:
            second.kill()
            second.communicate()
    assert tables_in(database) > 20
