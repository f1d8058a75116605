"""The one sentence under a job's title, and the marks beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.admin.marks import SHAPES, ago, badge, distance, length, state_badge
from jobs.admin.story import place, what_happened
from jobs.models import Attempt, Job
from jobs.states import AttemptOutcome, Cause, State, StepState, WaitReason, Word

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
STEPS = ("reserve", "charge", "page")


def job(state: State, **fields: Any) -> Job:
    return Job(state=state.value, **{"run_at": NOW, "attempt": 0, "wait_reason": "", **fields})


def failed(step: str = "charge", number: int = 3) -> Attempt:
    return Attempt(number=number, step=step, outcome=AttemptOutcome.FAILED.value)


def told(of: Job, last: Attempt | None = None, open_steps: tuple[str, ...] = ()) -> str:
    return what_happened(of, last, STEPS, open_steps, NOW)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause.TERMINAL, "failed at step 2 of 3 ('charge') after 3 attempts. No later try"),
        (Cause.EXHAUSTED, "failed at step 2 of 3 ('charge') after 3 attempts: its retries"),
        (Cause.DEADLINE, "time was over after 3 attempts"),
        (Cause.LOST, "workers were lost too often, after 3 attempts"),
        (Cause.UNSTARTABLE, "never started"),
    ],
)
def test_a_dead_job_says_where_and_why_it_died(cause: Cause, words: str) -> None:
    assert words in told(job(State.DEAD, cause=cause.value, attempt=3), failed())


def test_every_cause_and_state_has_a_sentence() -> None:
    jobs = [job(State.DEAD, cause=cause.value) for cause in Cause]
    jobs += [job(state) for state in State if state is not State.DEAD]
    later = {"run_at": NOW + timedelta(seconds=30), "wait_since": None}
    jobs += [job(State.QUEUED, wait_reason=reason.value, **later) for reason in WaitReason]
    for each in jobs:
        for last in (None, failed(), failed(step="")):
            assert told(each, last).endswith(".")


def test_an_uncertain_job_names_the_steps_in_doubt() -> None:
    dead = job(State.DEAD, cause=Cause.UNCERTAIN.value, attempt=1)
    assert told(dead, failed(), ("charge",)).startswith("Step 'charge' was started")
    assert told(dead, failed(), ("a", "b")).startswith("Steps 'a', 'b' were started")
    assert "has been recorded since" in told(dead, failed(), ())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"run_at": NOW - timedelta(minutes=4)}, "waits for a worker, ready since 4 min"),
        (
            {"run_at": NOW + timedelta(seconds=12), "wait_reason": "retry"},
            "Attempt 3 failed. It is tried again in 12 s.",
        ),
        ({"run_at": NOW + timedelta(hours=1), "wait_reason": "scheduled"}, "scheduled; it runs in"),
        (
            {"wait_reason": "unstartable", "wait_since": NOW - timedelta(minutes=20)},
            "No running worker knows its kind since 20 min",
        ),
    ],
)
def test_a_queued_job_says_what_it_waits_for(fields: dict[str, Any], words: str) -> None:
    queued = job(State.QUEUED, attempt=3)
    for name, value in fields.items():
        setattr(queued, name, value)
    assert words in told(queued, failed())


def test_a_running_job_says_when_its_worker_may_be_gone_and_when_it_was_asked_to_stop() -> None:
    running = job(State.RUNNING, attempt=1, started_at=NOW - timedelta(minutes=14))
    assert told(running) == "Attempt 1 is running since 14 min."
    running.lease_until = NOW - timedelta(seconds=20)
    running.cancel_requested_at = NOW
    assert "lease ran out 20 s ago" in told(running)
    assert "asked to stop" in told(running)


def test_a_step_of_a_loop_is_placed_where_its_kind_declares_it() -> None:
    assert place("page:17", STEPS) == "at step 3 of 3 ('page:17')"
    assert place("unheard", STEPS) == "at step 'unheard'"
    assert place("", STEPS) == "in code between its steps"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (59, "59 s"),
        (61, "1 min"),
        (7200, "2 h"),
        (7800, "2 h 10 min"),
        (200000, "2 d"),
    ],
)
def test_a_span_is_said_in_large_units(seconds: int, text: str) -> None:
    assert length(timedelta(seconds=seconds)) == text


def test_a_moment_keeps_its_exact_time_behind_the_words() -> None:
    past = NOW - timedelta(minutes=4)
    assert distance(past, NOW) == "4 min ago"
    assert 'title="2026-11-29 11:56:00 UTC"' in ago(past, NOW)
    assert ago(None, NOW) == ""


def test_every_word_has_text_a_shape_and_a_tone() -> None:
    for word in (*State, *StepState, *AttemptOutcome, *Word):
        mark = badge(word)
        assert word.replace("_", " ") in mark
        assert any(f'aria-hidden="true">{shape}</span>' in mark for shape in SHAPES.values())


def test_uncertain_is_marked_apart_from_dead() -> None:
    doubt = state_badge(job(State.DEAD, cause=Cause.UNCERTAIN.value))
    plain = state_badge(job(State.DEAD, cause=Cause.TERMINAL.value))
    assert "badge doubt" in doubt
    assert "dead: uncertain" in doubt
    assert "badge bad" in plain


def test_what_a_mark_says_is_escaped() -> None:
    assert "<b>" not in badge("<b>")
