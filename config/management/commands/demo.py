"""``manage.py demo``: a job fails half-way, is retried, and repeats no finished step."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from config import services
from config.demo.access import access_of, operator
from config.demo.closing import prove, show_the_way
from config.demo.narrator import Narrator
from config.demo.payments import Payments
from config.demo.plot import Plot
from config.demo.provisioning import Provisioning
from config.demo.story import tell
from config.demo.working import logs_into, somebody_works
from config.env import ENV
from provisioning.terraform import binary, host
from provisioning.terraform.binary import Binary
from provisioning.terraform.errors import BinaryMissing, UnsupportedHost

INTERRUPTED = 130  # what a shell says of a command that Ctrl-C ended


class Command(BaseCommand):
    help = (
        "Tell the story of a job that fails half-way, with real jobs on this machine, and leave a"
        " second dead job to be retried in the console. Exits 0 when nothing ran twice."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--json", action="store_true", help="print one JSON line, and the story on stderr"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            self._told(as_json=options["json"])
        except KeyboardInterrupt:
            self._aside("Stopped. Its jobs stay where they are; `make serve` goes on with them.")
            sys.exit(INTERRUPTED)

    def _told(self, *, as_json: bool) -> None:
        _refuse_what_is_not_ready()
        narrator = Narrator(self._aside if as_json else self._aloud)
        user = operator()
        log = ENV.var / "demo.log"
        with logs_into(log), _plot() as plot, somebody_works():
            outcome = tell(plot, user, narrator)
            prove(outcome, narrator)
        if as_json:
            self.stdout.write(json.dumps(outcome.as_json()))
        else:
            show_the_way(outcome, access_of(user), log, narrator)

    def _aloud(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _aside(self, text: str) -> None:
        self.stderr.write(text, style_func=str)


def _refuse_what_is_not_ready() -> None:
    if settings.FIREDOOR_EXAMPLES is None:
        raise CommandError(
            "Nothing was done: the demo makes a user and workspaces, and is for a machine of your"
            f" own. FIREDOOR_ENVIRONMENT says {settings.FIREDOOR_ENVIRONMENT!r}; `local` is one."
        )
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise CommandError("Nothing was done: run `manage.py migrate` first, or `make demo`.")


@contextmanager
def _plot() -> Iterator[Plot]:
    """What the story is about: Terraform where it runs, else payments."""
    tool, why = _tool()
    if tool is not None:
        with services.available("registry") as url:
            yield Provisioning(tool, url)
        return
    if services.configured("payments"):
        raise CommandError("Nothing was done: unset PAYMENTS_URL, the demo has a provider.")
    with services.available("payments") as url:
        yield Payments(url, why=why)


def _tool() -> tuple[Binary | None, str]:
    try:
        host.here()
        return binary.find(settings.FIREDOOR_TOFU_BIN), ""
    except BinaryMissing:
        return None, "Neither OpenTofu nor Terraform is installed here"
    except UnsupportedHost:
        return None, "Terraform is supervised through Linux's /proc, which this machine lacks"
