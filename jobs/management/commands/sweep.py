"""``manage.py sweep``: one upkeep pass, for a timer where no beat can run, and for tests."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from jobs.sweep import sweep


class Command(BaseCommand):
    help = "Make one upkeep pass: reap, bury, publish, deliver."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--reap", action="store_true", help="reap at once, without the grace")
        parser.add_argument("--json", action="store_true", help="print one JSON line")

    def handle(self, *_args: Any, **options: Any) -> None:
        done = asdict(sweep(reap_now=options["reap"]))
        if options["json"]:
            self.stdout.write(json.dumps(done))
        else:
            self.stdout.write(", ".join(f"{name} {count}" for name, count in done.items()))
