"""Runs a command of ``manage.py``; of a database that cannot be used it tells in a sentence."""

from __future__ import annotations

import sys

from django.core.management import execute_from_command_line
from django.db import Error

from workspaces.outages import is_outage, is_unmigrated


def run(argv: list[str]) -> None:
    """Run it. Exits with 1 and a sentence where the database is out of reach, full or empty.

    What the command had committed stays. *Hole:* where the answer to a commit was lost, it stays
    as well, and nobody knows. ``--traceback`` shows where it ended.
    """
    try:
        execute_from_command_line(argv)
    except Error as error:
        sentence = _sentence(argv[1], error)
        if sentence is None or "--traceback" in argv:
            raise
        sys.exit(sentence)


def _sentence(command: str, error: Error) -> str | None:
    if is_unmigrated(error):
        return (
            f"{command} ended early: the database lacks what this version needs; nothing was done"
            f" with it. Run manage.py migrate first. {error}"
        )
    if is_outage(error):
        return (
            f"{command} ended early: the database cannot be used now. What it had written stays,"
            " the rest was not done. Check DATABASE_URL, that its server runs and that its disk has"
            f" room; then run it again. {error}"
        )
    return None
