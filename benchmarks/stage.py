"""The servers and processes of a run: one PostgreSQL, one Valkey, and a worker for each peer.

PostgreSQL has its default durability (fsync and synchronous_commit on). Every peer has a database
of its own in it and a numbered database in Valkey. Processes start with this environment alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from benchmarks.peer import Client, Peer
from tests.servers import Server, postgres, valkey
from tests.servers.process import running

ROOT = Path(__file__).parents[1]
CONCURRENCY = 4
_CELERY = ("--concurrency", str(CONCURRENCY), "--without-gossip", "--without-mingle")


@dataclass(frozen=True)
class Play:
    """How a peer is started. ``number`` is that of its database in Valkey."""

    module: str
    number: int
    worker: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()


_MIGRATE = ("django", "migrate", "--verbosity", "0", "--settings")
PLAYS = {
    "raw": Play("raw", 1, ("celery", "-A", "benchmarks.peers.raw", "worker", *_CELERY)),
    "raw_unacked": Play("raw", 6, ("celery", "-A", "benchmarks.peers.raw", "worker", *_CELERY)),
    "results": Play(
        "results",
        2,
        ("celery", "-A", "benchmarks.peers.results", "worker", *_CELERY),
        (*_MIGRATE, "benchmarks.peers.results_settings"),
    ),
    "procrastinate": Play(
        "procrastinate_peer", 3, ("benchmarks.peers.procrastinate_peer", str(CONCURRENCY))
    ),
    "firedoor": Play(
        "firedoor",
        0,
        ("celery", "-A", "config", "worker", "--queues", "default", *_CELERY),
        (*_MIGRATE, "config.settings"),
    ),
    "web": Play(
        "web",
        7,
        prepare=(*_MIGRATE, "benchmarks.peers.web_settings", "--run-syncdb"),
    ),
    "hooks": Play(
        "hooks",
        6,
        ("celery", "-A", "config", "worker", "--queues", "webhooks", *_CELERY),
        (*_MIGRATE, "config.settings"),
    ),
    "hooks_raw": Play(
        "hooks_raw", 8, ("celery", "-A", "benchmarks.peers.hooks_raw", "worker", *_CELERY)
    ),
    "small": Play("history", 4, prepare=(*_MIGRATE, "config.settings")),
    "large": Play("history", 5, prepare=(*_MIGRATE, "config.settings")),
}


@dataclass
class Stage:
    """The running parts."""

    database: Server
    broker: Server
    folder: Path
    exits: ExitStack
    peers: dict[str, Peer] = field(default_factory=dict)

    def peer(self, name: str) -> Peer:
        """The peer, started and standing still."""
        if name not in self.peers:
            self.peers[name] = self._start(name)
        return self.peers[name]

    def end_peers(self) -> None:
        """Stop every peer's worker: one that stands still would still take messages."""
        for peer in self.peers.values():
            peer.worker.stop()
            peer.client.close()
        self.peers.clear()

    def administer(self, statement: str) -> list[tuple[object, ...]]:
        """Say something to PostgreSQL as its owner, in Firedoor's database."""
        return self._say("firedoor", statement)

    def settle(self, name: str) -> None:
        """Leave no upkeep of PostgreSQL's for the measurement: statistics and a checkpoint."""
        self._say(name, "ANALYZE")
        self._say(name, "CHECKPOINT")

    def environment(self, name: str) -> dict[str, str]:
        """What the processes of a peer are started with."""
        play = PLAYS[name]
        url = self.database.url.replace("/firedoor?", f"/{name}?")
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "FIREDOOR_ENVIRONMENT": "test",
            "FIREDOOR_EXTRA_APPS": "benchmarks",
            "FIREDOOR_VAR": str(self.folder),
            "LOG_FORMAT": "json",
            "WEBHOOK_ALLOW_HTTP": "1",
            "WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8",
            "DATABASE_URL": url,
            "BENCH_DATABASE": url,
            "BENCH_STAMPS": str(self.stamps(name)),
            "REDIS_URL": f"{self.broker.url}?virtual_host={play.number}",
            "PGAPPNAME": name,
            "BENCH_ACKS": "0" if name == "raw_unacked" else "1",
        }

    def start_worker(self, name: str, *more: str) -> Server:
        """One more worker of a peer, running."""
        return self.start(name, "worker", (*PLAYS[name].worker, *more))

    def start(self, name: str, part: str, words: tuple[str, ...]) -> Server:
        """One more process of a peer, running ``python -m`` with ``words``."""
        environment = self.environment(name) | {"PGAPPNAME": f"{name}-{part}"}
        settings = [f"{key}={value}" for key, value in environment.items()]
        command = ["env", "-i", *settings, sys.executable, "-m", *words]
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-{part}-", dir=self.folder))
        # By SIGKILL, which ends it also while it stands still and the benchmark itself is killed.
        process = Server(f"{part} of {name}", "", folder, command, lambda: True, signal.SIGKILL)
        self.exits.enter_context(running(process))
        return process

    def client(self, name: str) -> Client:
        """The client of a peer, once its tables are made."""
        play, environment = PLAYS[name], self.environment(name)
        if name != "firedoor":  # which the server has from the start
            self._say("firedoor", f"CREATE DATABASE {name}")
        if play.prepare:
            command = [sys.executable, "-m", *play.prepare]
            subprocess.run(command, env=environment, check=True, cwd=self.folder)
        self.stamps(name).touch()
        return Client.start(play.module, environment, self.folder / f"{name}.client", self.exits)

    def _start(self, name: str) -> Peer:
        client = self.client(name)
        if name == "procrastinate":
            client.ask("prepare")
        return Peer(name, self.start_worker(name), client, self.stamps(name))

    def stamps(self, name: str) -> Path:
        return self.folder / f"{name}.stamps"

    def _say(self, database: str, statement: str) -> list[tuple[object, ...]]:
        with self.link(database) as link:
            cursor = link.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def link(self, database: str = "firedoor") -> psycopg.Connection[tuple[object, ...]]:
        """A connection to one of the databases as their owner."""
        host = str(self.database.folder)
        return psycopg.connect(host=host, user="postgres", dbname=database, autocommit=True)


@contextmanager
def staged() -> Iterator[Stage]:
    """Servers for the block; peers start when they are asked for."""
    with (
        tempfile.TemporaryDirectory(prefix="firedoor-bench-") as folder,
        postgres(durable=True) as database,
        valkey() as broker,
        ExitStack() as exits,
    ):
        yield Stage(database, broker, Path(folder), exits)
