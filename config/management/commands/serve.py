"""``manage.py serve``: the console and whatever runs the jobs, from one terminal."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config import services, serving


class Command(BaseCommand):
    help = "Serve the console and run jobs: in one process, or with REDIS_URL in one for each part."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--bind", default="127.0.0.1:8000", metavar="HOST:PORT")

    def handle(self, *_args: Any, **options: Any) -> None:
        bind = options["bind"]
        self.stdout.write(f"The console is at http://{bind}/admin/ — Ctrl-C stops it.")
        self.stdout.flush()
        if settings.FIREDOOR_INLINE:
            serving.Web(bind).run()
        else:
            services.start_all()
            commands = serving.processes(bind)
            sys.exit(serving.supervise(commands, say=self.stderr.write))
