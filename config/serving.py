"""Everything this installation needs, from one terminal.

Without a broker: the web server with one thread beside it that makes the upkeep passes and runs
the jobs. With one: web, beat and a worker per queue as processes of their own, stopped together.
*Hole:* for a machine of your own. A supervisor that restarts what dies, such as the compose file,
is for deployments.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from django.db import connection
from gunicorn.app.base import BaseApplication

from config import services
from config.queues import QUEUES
from config.wsgi import application
from jobs.publish import work_in_this_thread
from jobs.sweep import fault, sweep

logger = logging.getLogger(__name__)

PASS_SECONDS = 1.0
WEB_THREADS = 8


class Web(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """The web server of inline mode: one process, so that one thread in it runs the jobs."""

    def __init__(self, bind: str) -> None:
        self._bind = bind
        super().__init__()

    def load_config(self) -> None:
        """Serve on ``bind`` and start the work in the process that serves."""
        for name, value in {
            "bind": self._bind,
            "workers": 1,
            "threads": WEB_THREADS,
            "worker_class": "gthread",
            "post_worker_init": lambda _worker: start_work(),
            "graceful_timeout": 30,
            "control_socket_disable": True,
        }.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """The WSGI application; importing it made this process one that serves."""
        return application


def start_work() -> None:
    """Start what runs beside the web server in its process: example services, and the upkeep."""
    services.start_all()
    start_upkeep()


def start_upkeep() -> threading.Thread:
    """Start the thread that sweeps every second and runs what is due."""
    thread = threading.Thread(target=_upkeep, name="firedoor-upkeep", daemon=True)
    thread.start()
    return thread


def _upkeep() -> None:
    work_in_this_thread()
    pause = threading.Event()
    while True:
        try:
            sweep()
        except (Exception, SystemExit) as error:  # a handler that exits must not end all upkeep
            logger.exception("upkeep.pass_failed")
            connection.close()
            fault.send_robust(sender=None, work="pass", error=error)
        pause.wait(PASS_SECONDS)


def processes(bind: str) -> dict[str, list[str]]:
    """The commands of every process where there is a broker, by name."""
    celery = [sys.executable, "-m", "celery", "-A", "config"]
    web = [
        *(sys.executable, "-m", "gunicorn", "config.wsgi", "--bind", bind),
        *("--threads", str(WEB_THREADS), "--no-control-socket"),
    ]
    workers = {
        f"worker-{queue.name}": [
            *celery,
            "worker",
            *("--queues", queue.name),
            *("--concurrency", str(queue.concurrency)),
            *("--hostname", f"{queue.name}@%h"),
            *("--without-gossip", "--without-mingle"),
        ]
        for queue in QUEUES
    }
    return {"web": web, "beat": [*celery, "beat", "--pidfile="], **workers}


def supervise(commands: dict[str, list[str]], *, say: Callable[[str], object]) -> int:
    """Run all commands until one ends or a signal asks to stop, then stop all; the exit code.

    Each gets a session of its own, so that Ctrl-C reaches only this process, which sends one
    SIGTERM to each and waits for its grace: a running job stops at its next boundary.
    """
    wake = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: wake.set())
    started = {
        name: subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
        for name, command in commands.items()
    }
    ended: list[str] = []
    while not ended and not wake.wait(0.5):
        ended = [name for name, process in started.items() if process.poll() is not None]
    for name in ended:
        say(f"{name} ended with {started[name].returncode}; stopping the others.")
    _stop(started, say)
    return 1 if ended else 0


def _stop(started: dict[str, subprocess.Popen[bytes]], say: Callable[[str], object]) -> None:
    grace = {f"worker-{queue.name}": queue.grace_seconds for queue in QUEUES}
    for process in started.values():
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for name, process in started.items():
        try:
            process.wait(timeout=grace.get(name, 30))
        except subprocess.TimeoutExpired:
            say(f"{name} did not stop in time and is killed; its jobs come back by their leases.")
            process.kill()
            process.wait()
