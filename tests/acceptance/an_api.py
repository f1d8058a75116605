"""The API as it is deployed: gunicorn with several processes, and a client that speaks raw."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import urlsplit

import httpx2
import psycopg

from tests.acceptance.test_web import served
from tests.servers import Server, postgres
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
ORDER = {"kind": "payments.charge", "params": {"order_id": "o-1", "cents": 4200}}
JOBS = "/api/v1/workspaces/acme/jobs/"
# A job whose key ends like a row of `stalled` is inserted, and then goes no further.
_STALLING = """
CREATE TABLE stalled (key text);
CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  WHILE EXISTS (SELECT FROM stalled WHERE NEW.key LIKE '%' || stalled.key) LOOP
    PERFORM pg_sleep(0.02);
  END LOOP;
  RETURN NEW;
END $$;
CREATE TRIGGER stalls AFTER INSERT ON jobs_job FOR EACH ROW EXECUTE FUNCTION stall();
"""


@dataclass
class Api:
    """A running API, a token for it, its database, and the process that its own ones are of."""

    address: str
    token: str
    database: Server
    pid: int

    def post(self, key: str, body: Any = ORDER, address: str = "") -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": key}
        url = f"{address or self.address}{JOBS}"
        return httpx2.post(url, json=body, headers=headers, trust_env=False, timeout=60)

    def raw(
        self, *headers: str, sent: int | None = None, told: bool = True, padding: int = 0
    ) -> socket.socket:
        """A connection on which an order was sent, or so many bytes of it, and nothing read.

        Unless its length is `told` it goes as one chunk and the end of them; with `padding` it is
        told to be longer than it is.
        """
        body = json.dumps(ORDER).encode()
        length = [f"Content-Length: {len(body) + padding}"] if told else []
        if not told:
            body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        head = [
            f"POST {JOBS} HTTP/1.1",
            "Host: localhost",
            "Connection: close",
            "Content-Type: application/json",
            *length,
            f"Authorization: Bearer {self.token}",
            *headers,
        ]
        where = urlsplit(self.address)
        connection = socket.create_connection((where.hostname, where.port), timeout=60)
        connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body[:sent])
        return connection

    def wire(self, sent: bytes) -> bytes:
        """All that comes back for these bytes; nothing follows them."""
        where = urlsplit(self.address)
        with socket.create_connection((where.hostname, where.port), timeout=60) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            return read_to_the_end(connection)

    def jobs(self, key: str) -> int:
        return self._count("jobs_job WHERE key LIKE %s", f"%{key}")

    def records(self, key: str) -> int:
        return self._count("workspaces_idempotencyrecord WHERE key = %s", key)

    @contextmanager
    def stalled(self, key: str) -> Iterator[None]:
        """In the block every request under the key stops once its job is inserted."""
        self.run("INSERT INTO stalled VALUES (%s)", key)
        try:
            yield
        finally:
            self.run("DELETE FROM stalled WHERE key = %s", key)

    def wait_until_stalled(self) -> None:
        stalling = "pg_stat_activity WHERE wait_event = %s"
        wait_until(lambda: self._count(stalling, "PgSleep") == 1, 30, "a request is stalled")

    def run(self, statement: LiteralString, *values: str) -> None:
        with psycopg.connect(self.database.url) as connection:
            connection.execute(statement, values or None)

    def _count(self, what: LiteralString, value: str) -> int:
        with psycopg.connect(self.database.url) as connection:
            row = connection.execute(f"SELECT count(*) FROM {what}", [value]).fetchone()  # noqa: S608
        assert row is not None
        return int(row[0])


def read_to_the_end(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def running_api(var: Path, **more: str) -> Iterator[Api]:
    """Three processes of four threads each, on a database of their own."""
    with postgres() as database:
        environment = {
            "PATH": os.environ["PATH"],
            "FIREDOOR_ENVIRONMENT": "test",
            "FIREDOOR_VAR": str(var),
            "DATABASE_URL": database.url,
            "WEB_CONCURRENCY": "3",
            "GUNICORN_CMD_ARGS": "--threads 4",
            **more,
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
        with served(environment) as (address, process):
            api = Api(address, token, database, process.pid)
            api.run(_STALLING)
            yield api
