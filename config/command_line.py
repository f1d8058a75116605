"""Runs a command of ``manage.py``; of a database that cannot be used it tells in a sentence."""

from __future__ import annotations

import sys

from django.core.management import execute_from_command_line
from django.db import Error

from workspaces.outages import is_contention, is_outage, is_unmigrated


def run(argv: list[str]) -> None:
    """Run it. Exits with 1 and a sentence where the database is away, full, empty or contended.

    What the command had committed stays. *Hole:* where the answer to a commit was lost, nobody
    knows whether that stays too. ``--traceback`` shows where it ended.
    """
    try:
        execute_from_command_line(argv)
    except Error as error:
        told = _told(error)
        if told is None or "--traceback" in argv:
            raise
        why, next_move = told
        sys.exit(
            f"{argv[1]} ended early: {why}. What it had written stays, the rest was not done."
            f" {next_move} {error}"
        )


def _told(error: Error) -> tuple[str, str] | None:
    """Why, and what to do next; None for a fault of the code."""
    if is_unmigrated(error):
        return "the database lacks what this version needs", "Run manage.py migrate first."
    if is_contention(error):
        return "others were at work on the same rows", "Run it again."
    if is_outage(error):
        return "the database cannot be used now", (
            "Check DATABASE_URL, that its server runs and that its disk has room. Where it went"
            " away during a commit nobody knows of that one: look, then run it again."
        )
    return None
