"""One queue under test: its worker, its client, and the file its jobs stamp."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks import stamps
from tests.servers import Server

PATIENCE = 120.0


class Stuck(Exception):
    """Something did not happen in time, or a process ended; the message has its last words."""


@dataclass(frozen=True)
class Client:
    """A process that does what a peer's users do (``benchmarks.client``)."""

    process: subprocess.Popen[str]
    asking: IO[str]
    answers: IO[str]
    log: Path

    @staticmethod
    def start(module: str, environment: dict[str, str], log: Path, exits: ExitStack) -> Client:
        """Start one that ends with ``exits``."""
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.client", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=exits.enter_context(open(log, "ab")),
            env=environment,
            text=True,
        )
        exits.enter_context(process)  # waits for its end
        exits.callback(process.terminate)
        if process.stdin is None or process.stdout is None:
            raise Stuck(f"the client {module} has no pipes")
        return Client(process, process.stdin, process.stdout, log)

    def close(self) -> None:
        """Let the process end."""
        self.process.terminate()
        self.process.wait()

    def ask(self, verb: str, *words: object) -> tuple[Any, float]:
        """Let it do something: what it answers, and the seconds that took it."""
        self.asking.write(json.dumps([verb, *words]) + "\n")
        self.asking.flush()
        answer = self.answers.readline()
        if not answer:
            raise Stuck(f"the client ended while asked to {verb}:\n{self.log.read_text()[-3000:]}")
        result, seconds = json.loads(answer)
        return result, seconds


@dataclass
class Peer:
    """A queue whose worker stands still after the first ``drain``, except inside one."""

    name: str
    worker: Server
    client: Client
    stamps: Path

    def fill(self, task: str, count: int) -> float:
        """Empty the queue and put ``count`` jobs into it; the seconds the putting took."""
        self.client.ask("clear")
        self.stamps.write_bytes(b"")
        return self.client.ask("enqueue", task, count)[1]

    def drain(self, count: int) -> list[float]:
        """Let the worker run until ``count`` jobs are done and recorded; their moments."""
        self.worker.thaw()
        try:
            self.wait(lambda: self._ran(count), f"{count} jobs run")
            self.wait(lambda: self._recorded(count), f"{count} jobs recorded as done")
        finally:
            self.worker.freeze()
        moments = stamps.read(self.stamps)
        if len(moments) != count:
            raise Stuck(f"{self.name}: {len(moments)} jobs ran where {count} were enqueued")
        return moments

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Return once the condition holds. Raises Stuck if it does not in time."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise Stuck(f"{self.name}: never {what}:\n{self.worker.log()[-3000:]}")
            time.sleep(0.01)  # noqa: TID251  bounded by the deadline

    def _ran(self, count: int) -> bool:
        if not is_alive(self.worker):
            raise Stuck(f"{self.name}: its worker ended:\n{self.worker.log()[-3000:]}")
        return stamps.count(self.stamps) >= count

    def _recorded(self, count: int) -> bool:
        finished = self.client.ask("finished")[0]
        return finished is None or finished >= count


def is_alive(server: Server) -> bool:
    """Whether the process is there, standing still or not."""
    return server.process is not None and server.process.poll() is None
