"""What README and the guide tell a newcomer to type works, against a live server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection
from pytest_django.live_server_helper import LiveServer

from jobs.kinds import Terminal
from jobs.models import Job
from jobs.testing import at_step, drain

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)


def blocks(page: str) -> list[str]:
    return [block for block in BLOCK.findall((ROOT / page).read_text()) if "curl" in block]


def typed(block: str, server: LiveServer, **more: str) -> list[Any]:
    """The JSON that the commands of a block print, in their order."""
    url = urlsplit(os.environ["DATABASE_URL"])
    database = url._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    script = block.replace(". .venv/bin/activate\n", "").replace(
        "http://127.0.0.1:8000", server.url
    )
    script = re.sub(r"\bpython\b", sys.executable, script)
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database, **more},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers, text, decoder = [], done.stdout, json.JSONDecoder()
    while (start := text.find("{")) >= 0:
        answer, end = decoder.raw_decode(text[start:])
        answers.append(answer)
        text = text[start + end :]
    return answers


def token_of(server: LiveServer) -> dict[str, str]:
    """TOKEN and API, as the README's commands set them."""
    readme = blocks("README.md")[0].partition("curl")[0]
    (told,) = typed(readme + 'echo "{\\"TOKEN\\": \\"$TOKEN\\", \\"API\\": \\"$API\\"}"', server)
    return {name: str(value) for name, value in told.items()}


@pytest.mark.timeout(180)
def test_the_readme(transactional_db: None, live_server: LiveServer) -> None:
    made, listed = typed(blocks("README.md")[0], live_server)[-2:]
    assert (made["created"], made["kind"]) == (True, "payments.charge")
    assert [job["id"] for job in listed["results"]] == [made["id"]]
    assert Job.objects.get().params == {"order_id": "o-42", "cents": 4200}


@pytest.mark.timeout(300)
def test_the_guide(transactional_db: None, live_server: LiveServer) -> None:
    given = token_of(live_server)
    enqueue, by_key, watch, retry, trail = blocks("docs/guides/api.md")

    first, again = typed(enqueue + enqueue, live_server, **given)
    assert first == again
    once, twice = typed(by_key + by_key, live_server, **given)
    assert (once["created"], twice["created"], once["id"]) == (True, False, twice["id"])

    def refuse(_step: object) -> None:
        raise Terminal("the card was stolen")

    with at_step("reserve", "started", refuse):
        drain()
    (dead,) = typed(watch, live_server, **given)
    assert {job["state"] for job in dead["results"]} == {"dead"}
    plan, successor = typed(retry, live_server, **given, JOB=first["id"])
    assert (plan["allowed"], plan["verb"]) == (True, "resume")
    assert (successor["retry_of"], successor["mode"]) == (first["id"], "resume")
    (deeds,) = typed(trail, live_server, **given, JOB=first["id"])
    assert [deed["reason"] for deed in deeds["results"]] == ["the bank is back"]
