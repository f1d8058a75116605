"""``manage.py serve``: the console and whatever runs the jobs, from one terminal."""

from __future__ import annotations

import fcntl
import socket
import sys
from argparse import ArgumentParser
from typing import IO, Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from config import services
from config.env import ENV


class Command(BaseCommand):
    help = "Serve the console and run jobs: in one process, or with REDIS_URL in one for each part."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--bind", default="127.0.0.1:8000", metavar="HOST:PORT")

    def handle(self, *_args: Any, **options: Any) -> None:
        with _alone():
            listener = _listening(options["bind"])
            self._aloud(f"The console is at {_address(listener)}/admin/ — Ctrl-C stops it.")
            if ENV.deployed:
                self._aloud(
                    "This is a deployment: plain HTTP is sent on to TLS, which a proxy has to end."
                )
                call_command("collectstatic", interactive=False, verbosity=0)
            from config import serving  # it looks for the files that were just collected

            if settings.FIREDOOR_INLINE:
                serving.Web(listener.detach()).run()
            else:
                services.start_all()
                commands = serving.processes(listener.fileno())
                say, fd = self.stderr.write, listener.detach()
                sys.exit(serving.supervise(commands, say=say, listener=fd))

    def _aloud(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _alone() -> IO[str]:
    """Held while this process serves: two would each take the other's example services away."""
    held = (ENV.var / "serve.lock").open("w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise CommandError(
            f"Nothing was started: another `manage.py serve` runs on {ENV.var}. Stop that one, or"
            " set another FIREDOOR_VAR."
        ) from None
    return held


def _listening(bind: str) -> socket.socket:
    """A socket that listens where ``bind`` says. Raises CommandError with what to do."""
    host, _, port = bind.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise CommandError(f"Nothing was started: write --bind as HOST:PORT, not {bind[:80]!r}.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), int(port)), family=family)
    except OSError as error:
        raise CommandError(
            f"Nothing was started: {bind} cannot be listened on ({error.strerror or error})."
            " Stop what is there, or choose another: make serve PORT=8001."
        ) from None


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
