"""How a state, a word and a moment look: always text, with a shape and a colour beside it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.models import Job
from jobs.states import AttemptOutcome, Cause, State, StepState, Word

# tone -> shape. The tone is a class in console.css.
SHAPES = {"good": "✓", "bad": "✕", "doubt": "?", "live": "▸", "plain": "○"}

_TONES: dict[str, str] = {
    State.SUCCEEDED: "good",
    State.DEAD: "bad",
    State.RUNNING: "live",
    StepState.STARTED: "live",
    StepState.DONE: "good",
    StepState.NOT_DONE: "plain",
    AttemptOutcome.FAILED: "bad",
    AttemptOutcome.TIMED_OUT: "bad",
    AttemptOutcome.LOST: "bad",
    AttemptOutcome.UNCERTAIN: "doubt",
    Word.KEPT: "good",
    Word.ASKS_FIRST: "doubt",
    Word.RUNS: "live",
    Word.RUNS_AGAIN: "doubt",
    Word.BLOCKED: "bad",
}


def badge(text: str, tone: str = "") -> SafeString:
    """A word of one of the closed sets, with its own tone unless another is given."""
    tone = tone or _TONES.get(text, "plain")
    return format_html(
        '<span class="badge {}"><span aria-hidden="true">{}</span> {}</span>',
        tone,
        SHAPES[tone],
        text.replace("_", " "),
    )


def state_of(job: Job) -> str:
    """The state in words, with the cause of a dead job."""
    return f"{job.state}: {job.cause}" if job.cause else job.state


def state_badge(job: Job) -> SafeString:
    """The state of a job; one that needs a person's word is marked as a doubt."""
    tone = "doubt" if job.cause == Cause.UNCERTAIN else _TONES.get(job.state, "plain")
    return badge(state_of(job), tone)


def length(span: timedelta) -> str:
    """A span in its two largest units at most: ``4 min``, ``2 h 10 min``, ``3 d``."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    hours, minutes = divmod(seconds // 60, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} d"


def distance(moment: datetime, now: datetime) -> str:
    """``4 min ago`` or ``in 30 s``."""
    past = moment <= now
    return f"{length(now - moment)} ago" if past else f"in {length(moment - now)}"


def ago(moment: datetime | None, now: datetime) -> SafeString | str:
    """A moment as people say it, with the exact one behind it."""
    if moment is None:
        return ""
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        exact(moment),
        distance(moment, now),
    )


def exact(moment: datetime) -> str:
    """A moment in UTC, to the second."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
