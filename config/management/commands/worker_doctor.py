"""``manage.py worker_doctor``: what is wrong here, why it matters, and the command that helps."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from config.doctor.answer import Level, worst
from config.doctor.examine import Finding, examine
from config.doctor.page import page

EXIT_CODES = {Level.OK: 0, Level.WARN: 1, Level.FAIL: 2}


class Command(BaseCommand):
    help = (
        "Examine broker, database, workers, upkeep and stuck jobs. Changes nothing. Exit codes: "
        "0 all is well, 1 something to look at, 2 jobs stand still or a guarantee does not hold."
    )
    requires_system_checks = ()  # the doctor asks them itself

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("code", nargs="*", help="ask only what begins so, such as jobs.")
        parser.add_argument("--json", action="store_true", help="print one JSON line")
        parser.add_argument("--page", action="store_true", help="print docs/runbooks/doctor.md")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["page"]:
            self.stdout.write(page(), ending="")
            return
        findings = examine(options["code"])
        level = worst(finding.level for finding in findings)
        if options["json"]:
            told = {"level": level, "findings": [asdict(finding) for finding in findings]}
            self.stdout.write(json.dumps(told))
        else:
            self._show(findings)
        sys.exit(EXIT_CODES[level])

    def _show(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            self.stdout.write(f"{finding.level:<4}  {finding.code:<22} {finding.sentence}")
            if finding.rows:
                self.stdout.write(f"      {', '.join(finding.rows)}")
            if finding.command:
                self.stdout.write(f"      → {finding.command}")
