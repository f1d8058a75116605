"""The page for receivers is true: its programs verify what we send, and its events are all."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from webhooks.catalogue import CATALOGUE
from webhooks.signing import new_secret, sign

GUIDE = (Path(__file__).parents[3] / "docs/guides/webhooks.md").read_text()
PROGRAMS = dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", GUIDE, re.M | re.S))
RUNS = {"verify.py": [sys.executable], "verify.js": ["node"], "verify.sh": ["sh"]}
BODY = '{"type":"job.dead","name":"Zoë ñ 🚀"}'.encode()
OTHER = new_secret()


def accepts(program: str, folder: Path, headers: dict[str, str], body: bytes = BODY) -> bool:
    """Whether a program of the page takes a message for ours."""
    if shutil.which(RUNS[program][0]) is None:
        pytest.skip(f"there is no {RUNS[program][0]} on this machine")
    file = folder / program
    file.write_text(PROGRAMS[program])
    done = subprocess.run(
        [*RUNS[program], str(file)],
        input=body,
        env={"PATH": os.environ["PATH"], **headers},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == b""
    return done.returncode == 0


def message(secret: str, *more: str, late: int = 0, signature: str = "") -> dict[str, str]:
    at = int(time.time()) - late
    return {
        "WEBHOOK_SECRET": secret,
        "WEBHOOK_ID": "msg_1",
        "WEBHOOK_TIMESTAMP": str(at),
        "WEBHOOK_SIGNATURE": signature or sign([*more, secret], "msg_1", at, BODY),
    }


def test_the_page_has_a_program_for_each() -> None:
    assert set(PROGRAMS) == set(RUNS)


@pytest.mark.parametrize("program", RUNS)
def test_it_takes_what_is_ours(program: str, tmp_path: Path) -> None:
    secret = new_secret()
    assert accepts(program, tmp_path, message(secret))
    assert accepts(program, tmp_path, message(secret, OTHER)), "while a secret is rotated"


@pytest.mark.parametrize("program", RUNS)
def test_it_takes_nothing_else(program: str, tmp_path: Path) -> None:
    secret = new_secret()
    assert not accepts(program, tmp_path, message(secret), BODY + b" ")
    assert not accepts(program, tmp_path, {**message(secret), "WEBHOOK_ID": "msg_2"})
    assert not accepts(program, tmp_path, {**message(secret), "WEBHOOK_SECRET": OTHER})
    for late in (400, -400):
        assert not accepts(program, tmp_path, message(secret, late=late))
    for signature in ("v1,", "v1,AAAA", "v2,AAAA"):
        assert not accepts(program, tmp_path, message(secret, signature=signature))


def test_every_event_is_on_the_page_with_its_meaning() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \| (.+) \|$", GUIDE, re.M)
    assert rows == [(one.name, one.meaning) for one in CATALOGUE.values()]
