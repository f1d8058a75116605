"""How the demo ends: the proof, what is left for the reader, and the way into the console."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from django.core.management.base import CommandError
from django.urls import reverse

from config.demo.access import USERNAME, Access
from config.demo.narrator import Narrator
from config.demo.story import Outcome
from config.env import ROOT
from jobs.shown import shown
from jobs.states import StepState

CONSOLE = "http://127.0.0.1:8000"


def prove(outcome: Outcome, narrator: Narrator) -> None:
    """Show what ran where. Raises CommandError unless every effect happened exactly once."""
    narrator.heading("5. No effect happened twice")
    rows = _rows(outcome)
    narrator.table(("step", "first job", "its retry"), rows)
    again = " and ".join(name for name, _, word in rows if word == "ran again")
    if again:
        narrator.plain(
            f"What {again} returned holds for one job only; they look and change nothing."
        )
    counts = ", ".join(f"{name} {count}" for name, count in outcome.effects.items())
    narrator.plain(f"What really happened, counted where it happened: {counts}.")
    if any(count != 1 for count in outcome.effects.values()):
        raise CommandError(f"Something did not happen exactly once: {counts}.")


def show_the_way(outcome: Outcome, access: Access, log: Path, narrator: Narrator) -> None:
    """Say what is left to do by hand, and how to get at it."""
    narrator.heading("6. Your turn")
    job = outcome.second
    narrator.plain(
        f"Job {job.pk} of workspace {job.workspace.slug} is still dead, and its cause is mended."
        " Open the console, look at the dead letter, and retry it from the failed step."
    )
    rows = [
        ("start the console", "make serve"),
        ("dead letters", CONSOLE + reverse("admin:jobs_deadletter_changelist")),
        ("user", USERNAME),
        ("password", access.password or _known()),
        ("or, while it runs", f"{_python()} manage.py job retry {job.pk} --reason '…'"),
        ("log of this demo", str(log)),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        narrator.detail(f"{name.ljust(width)}   {value}")


def _known() -> str:
    return (
        f"as an earlier demo said; for a new one: {_python()} manage.py changepassword {USERNAME}"
    )


def _python() -> str:
    return os.path.relpath(sys.executable) if sys.executable.startswith(str(ROOT)) else "python"


def _rows(outcome: Outcome) -> list[tuple[str, str, str]]:
    first = shown(outcome.first)
    before = {step["name"]: step["state"] for step in first["steps"]}
    tried = {attempt["step"] for attempt in first["attempts"]}
    rows = []
    for name in outcome.steps:
        ran = before.get(name) == StepState.DONE
        once = "ran" if ran else "tried in vain" if name in tried else "not reached"
        again = "kept" if name in outcome.kept else "ran again" if ran else "ran"
        rows.append((name, once, again))
    return rows
