"""Everything this installation needs, from one terminal.

Without a broker: the web server with one thread beside it that makes the upkeep passes and runs
the jobs. With one: web, beat and a worker per queue as processes of their own, stopped together.
*Hole:* for a machine of your own. A supervisor that restarts what dies, such as the compose file,
is for deployments.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.db import connection
from gunicorn.app.base import BaseApplication

from config import leash, services, web
from config.queues import QUEUES
from config.wsgi import application
from jobs import shutdown
from jobs.publish import work_in_this_thread
from jobs.sweep import fault, sweep

logger = logging.getLogger(__name__)

PASS_SECONDS = 1.0
WEB_THREADS = 8
GRACE_SECONDS = 30
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Web(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """The web server of inline mode: one process, so that one thread in it runs the jobs."""

    def __init__(self, listener: int) -> None:
        self._bind = f"fd://{listener}"
        super().__init__()

    def load_config(self) -> None:
        """Serve on the listener and start the work in the process that serves."""
        for name, value in {
            "bind": self._bind,
            "workers": 1,
            "threads": WEB_THREADS,
            "worker_class": web.Worker,
            "forwarder_headers": web.forwarder_headers,
            "secure_scheme_headers": web.secure_scheme_headers,
            "pre_request": web.pre_request,
            "when_ready": _stop_on_hangup,
            "post_worker_init": _begin,
            "worker_exit": lambda _arbiter, _worker: end_work(),
            "graceful_timeout": GRACE_SECONDS,
            "control_socket_disable": True,
        }.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """The WSGI application; importing it made this process one that serves."""
        return application


def _stop_on_hangup(arbiter: Any) -> None:
    """A terminal that closes stops the server; gunicorn would load itself anew and live on."""
    _handle_hangup(lambda *_: arbiter.SIG_QUEUE.put_nowait(signal.SIGTERM))


def _begin(worker: Any) -> None:
    """Let every signal to stop be a graceful one: the others raise, and a second one in between."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, worker.handle_exit)
    _handle_hangup(worker.handle_exit)
    shutdown.watch_signals()
    start_work()


def _handle_hangup(handler: Callable[..., object]) -> None:
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, handler)


_upkeep_threads: list[threading.Thread] = []


def start_work() -> None:
    """Start what runs beside the web server in its process: example services, and the upkeep."""
    shutdown.forget()  # it is shared with the arbiter, which starts a new worker after an old one
    services.start_all()
    _upkeep_threads.append(start_upkeep())


def end_work() -> None:
    """Let a running job stop at its next step and go back to the queue.

    For as long as a stop may take; then the process ends, and whoever sweeps next finds it gone.
    """
    if not _upkeep_threads:
        return  # the arbiter, which says so of a worker that it could not stop
    for number in (*STOPS, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    shutdown.ask()
    for thread in _upkeep_threads:
        thread.join(GRACE_SECONDS - 5)


def start_upkeep() -> threading.Thread:
    """Start the thread that sweeps every second and runs what is due."""
    thread = threading.Thread(target=_upkeep, name="firedoor-upkeep", daemon=True)
    thread.start()
    return thread


def _upkeep() -> None:
    work_in_this_thread()
    pause = threading.Event()
    while not shutdown.asked():
        try:
            sweep()
        except (Exception, SystemExit) as error:  # a handler that exits must not end all upkeep
            logger.exception("upkeep.pass_failed")
            connection.close()
            fault.send_robust(sender=None, work="pass", error=error)
        pause.wait(PASS_SECONDS)
    connection.close()


def processes(listener: int) -> dict[str, list[str]]:
    """The commands of every process where there is a broker, by name.

    ``listener`` is the file descriptor that the web process serves on.
    """
    celery = [sys.executable, "-m", "celery", "-A", "config"]
    gunicorn = [
        *(sys.executable, "-m", "gunicorn", "--config", "python:config.web", "config.wsgi"),
        *("--bind", f"fd://{listener}", "--threads", str(WEB_THREADS), "--no-control-socket"),
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
    return {"web": gunicorn, "beat": [*celery, "beat", "--pidfile="], **workers}


def supervise(
    commands: dict[str, list[str]],
    *,
    say: Callable[[str], object],
    listener: int | None = None,
) -> int:
    """Run all commands until one ends or a signal asks to stop, then stop all; the exit code.

    Each gets a session of its own, so that Ctrl-C reaches only this process, which sends one
    SIGTERM to each and waits for its grace: a running job stops at its next boundary. A terminal
    that closes is such a signal, too. Where this process is killed, each gets its SIGTERM from the
    kernel.
    """
    wake = threading.Event()
    for number in STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as SIGHUP under nohup
            signal.signal(number, lambda *_: wake.set())
    started = {name: _started(command, listener) for name, command in commands.items()}
    if listener is not None:
        os.close(listener)  # the web process has it
    ended: list[str] = []
    while not ended and not wake.wait(0.5):
        ended = [name for name, process in started.items() if process.poll() is not None]
    for name in ended:
        _say(say, f"{name} ended with {started[name].returncode}; stopping the others.")
    _stop(started, say)
    return 1 if ended else 0


def _started(command: list[str], listener: int | None) -> subprocess.Popen[bytes]:
    leashed = [sys.executable, str(Path(leash.__file__)), str(os.getpid()), *command]
    return subprocess.Popen(
        leashed,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        pass_fds=() if listener is None else (listener,),
    )


def _stop(started: dict[str, subprocess.Popen[bytes]], say: Callable[[str], object]) -> None:
    grace = {f"worker-{queue.name}": queue.grace_seconds for queue in QUEUES}
    for process in started.values():
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for name, process in started.items():
        try:
            process.wait(timeout=grace.get(name, GRACE_SECONDS))
        except subprocess.TimeoutExpired:
            _say(say, f"{name} did not stop in time and is killed; its jobs come back by leases.")
            process.kill()
            process.wait()


def _say(say: Callable[[str], object], text: str) -> None:
    with suppress(OSError):  # the terminal may be what is gone
        say(text)
