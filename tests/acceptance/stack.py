"""A whole Firedoor of real processes: PostgreSQL, Valkey, prefork workers, beat.

Started as a deployment starts them, on servers of their own that a test may kill, freeze and
start again. The test's own process takes part as a client: it enqueues and reads through the
same database and the same broker.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import current_app
from django.conf import settings
from django.db import connection, connections

from jobs import publish, tasks
from tests.servers import Server, postgres, valkey
from tests.servers.postgresql import DATABASE
from tests.servers.process import family, running
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


@dataclass
class Stack:
    """The running parts. ``worker`` serves every queue; ``beat`` makes an upkeep pass a second."""

    database: Server
    broker: Server
    folder: Path
    processes: ExitStack
    started: list[Server] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.manage("migrate", "--verbosity", "0")
        self.worker = self.start_worker()
        self.beat = self.start_beat()

    @property
    def environment(self) -> dict[str, str]:
        """What every process of this stack is started with."""
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "FIREDOOR_ENVIRONMENT": "test",
            "FIREDOOR_VAR": str(self.folder),
            "FIREDOOR_EXTRA_APPS": "tests.drills",
            "DATABASE_URL": self.database.url,
            "REDIS_URL": self.broker.url,
            "LOG_FORMAT": "json",
            "WEBHOOK_SEALING_KEYS": ",".join(settings.WEBHOOK_SEALING_KEYS),
            "WEBHOOK_ALLOW_HTTP": "1",
            "WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8",
        }

    def manage(self, *words: str, **elsewhere: str) -> str:
        """What ``manage.py`` prints; fails with its errors when it fails.

        Here and below ``elsewhere`` is what differs from this stack's environment.
        """
        return self._answer(str(ROOT / "manage.py"), *words, **elsewhere)

    def celery(self, *words: str) -> str:
        """What ``celery -A config`` prints; fails with its errors when it fails."""
        return self._answer("-m", "celery", "-A", "config", *words)

    def start_worker(self, name: str = "worker", queue: str = "", **elsewhere: str) -> Server:
        """Start one more prefork worker, for all queues or one; wait until it takes messages."""
        words = ["worker", "--loglevel", "INFO", "--concurrency", "4", "--hostname", f"{name}@%h"]
        words += ["--queues", queue] if queue else []
        ready = f"{name}@{socket.gethostname()} ready."
        return self._started(name, words, ready=ready, **elsewhere)

    def start_beat(self, name: str = "beat", **elsewhere: str) -> Server:
        """Start one more beat."""
        schedule = str(self.folder / f"{name}-schedule")
        words = ["beat", "--loglevel", "INFO", "--schedule", schedule, "--pidfile", ""]
        return self._started(name, words, ready="beat: Starting...", **elsewhere)

    def restore(self) -> None:
        """Start again what a test stopped, so that the next one finds the stack whole."""
        for server in (self.database, self.broker):
            if not is_alive(server):
                server.start()
            server.thaw()
        if not is_alive(self.worker):
            self.worker = self.start_worker()
        if not is_alive(self.beat):
            self.beat = self.start_beat()

    def wire(self) -> redis.Redis:
        """A client of the broker, to speak to it below Celery."""
        return redis.Redis(unix_socket_path=str(self.broker.folder / "valkey.sock"))

    def log(self) -> str:
        """All that every worker and beat has logged so far."""
        return "".join(process.log() for process in self.started)

    def lines(self) -> list[dict[str, Any]]:
        """The log as events; what is no JSON, such as Celery's banner, is left out."""
        found = [line for line in self.log().splitlines() if line.startswith("{")]
        return [json.loads(line) for line in found]

    def tail(self) -> str:
        """The last lines of every log, for a test that failed."""
        parts = [*self.started, self.database, self.broker]
        return "\n".join(f"--- {part.name}\n{part.log()[-6000:]}" for part in parts)

    def _answer(self, *words: str, **elsewhere: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            env=self.environment | elsewhere,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{words} failed:\n{done.stdout}{done.stderr}"
        return done.stdout

    def _started(self, name: str, words: list[str], *, ready: str, **elsewhere: str) -> Server:
        settings = [f"{key}={value}" for key, value in (self.environment | elsewhere).items()]
        process = Server(
            name=name,
            url="",
            folder=Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder)),
            command=[
                "env",
                "-i",
                *settings,
                sys.executable,
                "-m",
                "celery",
                "-A",
                "config",
                *words,
            ],
            ready=lambda: True,
            stop_signal=signal.SIGTERM,
        )
        self.started.append(process)
        self.processes.enter_context(running(process))
        wait_until(lambda: ready in process.log(), 90, f"{ready}\n{process.log()}")
        return process


@contextmanager
def running_stack(folder: Path) -> Iterator[Stack]:
    """Run servers, worker and beat for the block."""
    with postgres(durable=True) as database, valkey() as broker, ExitStack() as processes:
        yield Stack(database, broker, folder, processes)


@contextmanager
def client_of(stack: Stack) -> Iterator[None]:
    """Let this process enqueue and read as a client of ``stack`` while the block lasts."""
    settings = connections.settings["default"]
    before = dict(settings)
    options = {name: value for name, value in before["OPTIONS"].items() if name != "host"}
    connection.close()
    settings.update(
        NAME=DATABASE, USER="postgres", PASSWORD="", PORT="", HOST=str(stack.database.folder)
    )
    settings["OPTIONS"] = options
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CELERY_BROKER_URL", stack.broker.url)
        patch.setattr(tasks, "_local", threading.local())
        # Celery's own connections are kept by the app and would lead to an earlier broker.
        patch.setattr(current_app, "_pool", None)
        patch.setattr(current_app.amqp, "_producer_pool", None)
        patch.setattr(publish._Broker, "skip_until", 0.0)
        try:
            yield
        finally:
            connection.close()
            settings.clear()
            settings.update(before)


def is_alive(server: Server) -> bool:
    """Whether a process is there, which says nothing about whether it answers."""
    return server.process is not None and server.process.poll() is None


def children(server: Server) -> list[int]:
    """The processes that a worker forked."""
    return family(server.pid)[1:]
