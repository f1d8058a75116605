"""The API as it is deployed: gunicorn with several processes, and clients that are cut off."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest

from tests.acceptance.test_web import gunicorn
from tests.servers import postgres
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
ORDER = {"kind": "payments.charge", "params": {"order_id": "o-1", "cents": 4200}}


@dataclass
class Api:
    """A running API, a token for it, and its database."""

    address: str
    token: str
    database: str

    def post(self, key: str, body: Any = ORDER) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": key}
        url = f"{self.address}/api/v1/workspaces/acme/jobs/"
        return httpx2.post(url, json=body, headers=headers, trust_env=False, timeout=60)

    def raw(self, *headers: str) -> socket.socket:
        """A connection on which a whole order was sent, and nothing read."""
        body = json.dumps(ORDER).encode()
        head = [
            "POST /api/v1/workspaces/acme/jobs/ HTTP/1.1",
            "Host: localhost",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            f"Authorization: Bearer {self.token}",
            *headers,
        ]
        where = urlsplit(self.address)
        connection = socket.create_connection((where.hostname, where.port), timeout=60)
        connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        return connection

    def jobs(self, key: str) -> int:
        return self._count("jobs_job WHERE key LIKE %s", f"%:{key}")

    def records(self, key: str) -> int:
        return self._count("workspaces_idempotencyrecord WHERE key = %s", key)

    def _count(self, what: str, key: str) -> int:
        with psycopg.connect(self.database) as connection:
            row = connection.execute(f"SELECT count(*) FROM {what}", [key]).fetchone()  # noqa: S608
        assert row is not None
        return int(row[0])


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with postgres() as database:
        environment = {
            "PATH": os.environ["PATH"],
            "FIREDOOR_ENVIRONMENT": "test",
            "FIREDOOR_VAR": str(tmp_path_factory.mktemp("var")),
            "DATABASE_URL": database.url,
            "WEB_CONCURRENCY": "3",
        }

        def manage(*words: str) -> str:
            command = [sys.executable, "manage.py", *words]
            done = subprocess.run(
                command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
            )
            return done.stdout

        manage("migrate", "--verbosity", "0")
        manage("workspace", "add", "acme")
        words = ("--workspace", "acme", "--name", "ci", "--role", "operator")
        token = manage("createtoken", *words).strip()
        with gunicorn(environment) as address:
            yield Api(address, token, database.url)


def test_one_key_at_once_in_several_processes_makes_one_job(api: Api) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _n: api.post("at-once-1"), range(16)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    made = [answer for answer in answers if answer.status_code == 201]
    assert made
    assert len({answer.content for answer in made}) == 1
    assert api.jobs("at-once-1") == 1


def test_who_hung_up_gets_the_answer_when_they_come_back(api: Api) -> None:
    api.raw("Idempotency-Key: hung-up-1").close()
    wait_until(lambda: api.records("hung-up-1") == 1, 30, "the request was answered")

    again = api.post("hung-up-1")

    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")
    assert api.jobs("hung-up-1") == 1


@pytest.mark.parametrize(
    "headers",
    [
        ("Idempotency-Key: two-lines-1", "Idempotency-Key: two-lines-2"),
        ("Idempotency-Key: two-lines-1, two-lines-2",),
        ("Idempotency-Key: two-lines-1;a=b",),
        ("Idempotency-Key: ",),
    ],
    ids=["two lines", "a list", "parameters", "nothing"],
)
def test_what_is_no_single_key_on_the_wire_is_refused(api: Api, headers: tuple[str, ...]) -> None:
    with api.raw(*headers) as connection:
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"idempotency_key_invalid"' in answer
    assert api.records("two-lines-1") == 0
