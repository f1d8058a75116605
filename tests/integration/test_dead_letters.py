"""A dead letter is reported once it is committed, and once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import transaction

from config import dead_letters
from jobs import ending, events, moves
from jobs.models import Event, Job
from jobs.states import Cause
from jobs.sweep import sweep
from tests.integration.console_scene import dead
from tests.integration.doctor.asking import queued
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that were reported."""
    jobs: list[str] = []
    monkeypatch.setattr(dead_letters, "report", lambda event: jobs.append(event.subject))
    return jobs


@pytest.fixture
def deaf() -> Iterator[list[int]]:
    """Another receiver, which raises the first time it hears of a death."""
    heard: list[int] = []

    def receiver(event: Event) -> None:
        heard.append(event.pk)
        if len(heard) == 1:
            raise RuntimeError("not now")

    events.receives("job.dead")(receiver)
    yield heard
    events._receivers.pop()


def test_an_event_that_is_delivered_again_is_not_reported_again(
    acme: Workspace, tmp_path: Path, reported: list[str], deaf: list[int]
) -> None:
    job = dead(acme, tmp_path)
    assert reported == [str(job.pk)]
    sweep()
    assert len(deaf) == 2
    assert reported == [str(job.pk)]


def test_a_report_that_fails_is_no_fault_of_the_deed(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed stays so, and whoever committed it goes on."""
    monkeypatch.setattr(dead_letters, "report", lambda _event: [][0])
    job = queued(acme)
    with transaction.atomic():
        ended = moves.bury(job.pk, Cause.DEADLINE)
        assert ended is not None
        ending.follow(job.pk, ended)
    assert Job.objects.get(pk=job.pk).state == "dead"


def test_a_death_that_is_rolled_back_is_not_reported(acme: Workspace, reported: list[str]) -> None:
    job = queued(acme)
    with transaction.atomic():
        ended = moves.bury(job.pk, Cause.DEADLINE)
        assert ended is not None
        ending.follow(job.pk, ended)
        assert reported == []
        transaction.set_rollback(True)
    assert reported == []
    assert Job.objects.get(pk=job.pk).state == "queued"


def test_its_line_names_it(
    acme: Workspace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = dead(acme, tmp_path)
    (line,) = [record for record in caplog.records if record.message == "job.dead"]
    assert (line.levelname, line.name) == ("ERROR", "config.dead_letters")
    said = {name: line.__dict__[name] for name in ("job_id", "kind", "attempt", "cause")}
    assert said == {
        "job_id": str(job.pk),
        "kind": "drills.repeatable",
        "attempt": 1,
        "cause": "terminal",
    }
