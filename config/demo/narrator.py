"""How the demo is told: line by line while the jobs run, by looking at their rows."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence

from django.core.management.base import CommandError

from jobs.models import Attempt, Job
from jobs.models import Step as StepRow
from jobs.states import StepState

_LOOK_SECONDS = 0.1
_PATIENCE = 240.0  # seconds
_WIDTH = 92

_BEGINS = {
    "keyed": "begins: the request carries a key that stays the same in every try",
    "once": "begins: the intent is committed before anything is done",
}
_DONE = {
    "repeatable": "done",
    "local": "done, in one transaction with its checkpoint",
    "keyed": "done, under its key",
    "once": "done: from now on it never runs again",
}

Say = Callable[[str], object]


class Narrator:
    """Writes the story through ``say``, one line at a time."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._begun = time.monotonic()
        self._told: set[object] = set()

    @property
    def seconds(self) -> float:
        """How long the story has taken so far."""
        return time.monotonic() - self._begun

    def heading(self, text: str) -> None:
        """Begin a part of the story."""
        self._say(f"\n{text}")

    def plain(self, text: str) -> None:
        """Explain something, wrapped."""
        self._say(textwrap.indent(textwrap.fill(text, _WIDTH), "  "))

    def detail(self, text: str) -> None:
        """Say something that is not to be wrapped."""
        self._say(f"  {text}")

    def line(self, text: str) -> None:
        """Say what happens now."""
        self._say(f"  {self.seconds:5.1f} s  {text}")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Show rows under a head, in columns as wide as they need."""
        every = [head, ["-" * len(word) for word in head], *rows]
        widths = [max(len(row[column]) for row in every) for column in range(len(head))]
        for row in every:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self._say("  " + "   ".join(cells).rstrip())

    def watch(self, *jobs: Job) -> None:
        """Tell what becomes of the jobs until all are final.

        Raises CommandError after four minutes, for what takes twenty seconds on an idle machine.
        """
        ends = time.monotonic() + _PATIENCE
        while not self._all_ended(jobs):
            if time.monotonic() > ends:
                raise CommandError(
                    f"The jobs have not ended within {_PATIENCE:.0f} s. Is a worker running that"
                    " serves their queue, and a beat? `manage.py job list` shows how they stand."
                )
            time.sleep(_LOOK_SECONDS)

    def _all_ended(self, jobs: Sequence[Job]) -> bool:
        ended = [self._tell(job) for job in jobs]
        return all(ended)

    def _tell(self, job: Job) -> bool:
        job.refresh_from_db()
        name = job.workspace.slug.ljust(10)
        for row in StepRow.objects.filter(job_id=job.pk).order_by("pk"):
            self._tell_step(name, row)
        for attempt in Attempt.objects.filter(job_id=job.pk).order_by("number"):
            if attempt.outcome != "succeeded" and self._is_new(attempt.pk, "attempt"):
                self.line(f"{name} {attempt.step or 'attempt':9} {_failure(attempt)}")
        if job.final and self._is_new(job.pk, job.state):
            cause = f" ({job.cause})" if job.cause else ""
            self.line(f"{name} {'job':9} {job.state}{cause}")
        return job.final

    def _tell_step(self, name: str, row: StepRow) -> None:
        if row.state != StepState.NOT_DONE and self._is_new(row.pk, row.state):
            self.line(f"{name} {row.name:9} {_progress(row)}")

    def _is_new(self, *what: object) -> bool:
        if what in self._told:
            return False
        self._told.add(what)
        return True


def _progress(row: StepRow) -> str:
    done = row.state == StepState.DONE
    if row.carried_from is None:
        return (_DONE if done else _BEGINS)[row.effect]
    if done:
        return "kept: it was finished before, and is not run again"
    return "was begun before: it is sent again under the same key"


def _failure(attempt: Attempt) -> str:
    again = f"; next try in {attempt.delay:.1f} s" if attempt.delay else ""
    return f"attempt {attempt.number} failed: {attempt.reason}{again}"
