"""Short jobs that one message wakes: how many, and what becomes of those that are not begun."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from celery import current_app

from jobs import registry, shutdown, tasks
from jobs.enqueue import enqueue_many
from jobs.fence import Wake
from jobs.kinds import Kind, Run, job_kind
from jobs.models import Job
from jobs.together import grouped
from tests.drills.kinds import noop
from tests.integration.kernel.scene import new_workspace

pytestmark = [pytest.mark.django_db(transaction=True)]
KIND = "scene.short"


@pytest.fixture
def short() -> Iterator[Kind[..., Any]]:
    """A kind of which four share a message; the one that is told to ends the worker."""

    @job_kind(KIND, together=4)
    def short(run: Run, *, does: str) -> None:
        if does != "nothing":
            shutdown.ask()
        if does == "exit":
            raise SystemExit

    tasks.register()
    yield short
    shutdown.forget()
    registry.KINDS.pop(KIND)
    current_app.tasks.unregister(KIND)


def made(short: Kind[..., Any], *what: str) -> list[str]:
    intents = [(short.s(does=does), str(number)) for number, does in enumerate(what)]
    jobs = enqueue_many(intents, workspace=new_workspace())
    emptied()
    return [str(job.pk) for job in jobs]


def emptied() -> int:
    """How many messages wait; then none does."""
    with current_app.connection_for_write() as connection:
        channel: Any = connection.channel()
        return int(channel.queue_purge("default"))


def woken(ids: list[str]) -> list[str]:
    """Do what a worker does with a message of these ids; the state of each job in their order."""
    current_app.tasks[KIND].run(*ids)
    states = dict(Job.objects.values_list("pk", "state"))
    return [states[uuid.UUID(each)] for each in ids]


@pytest.mark.parametrize(
    ("count", "messages"), [(1, 1), (31, 31), (32, 16), (64, 16), (67, 17), (400, 100)]
)
@pytest.mark.usefixtures("short")
def test_as_many_share_a_message_as_leaves_some_for_every_child(count: int, messages: int) -> None:
    wakes = [Wake(uuid.uuid4(), KIND) for _ in range(count)]
    found = list(grouped(wakes))
    assert (len(found), sorted(sum(found, ()))) == (messages, sorted(wakes))
    emptied()
    tasks.send(wakes)
    assert emptied() == messages


@pytest.mark.usefixtures("short")
def test_other_kinds_and_other_lanes_have_messages_of_their_own() -> None:
    wakes = [Wake(uuid.uuid4(), noop.name) for _ in range(64)]
    wakes += [Wake(uuid.uuid4(), KIND, "sync") for _ in range(64)]
    assert list(grouped(wakes)) == [(wake,) for wake in wakes]


def test_one_message_runs_them_all(short: Kind[..., Any]) -> None:
    ids = made(short, "nothing", "nothing", "nothing", "nothing")
    assert woken(ids) == ["succeeded"] * 4
    assert emptied() == 0


def test_one_that_cannot_be_claimed_keeps_none_from_the_others(short: Kind[..., Any]) -> None:
    ids = made(short, "nothing", "nothing", "nothing")
    Job.objects.filter(pk=ids[0]).update(kind="scene.gone")
    assert woken(ids) == ["queued", "succeeded", "succeeded"]


def test_a_worker_that_stops_gives_back_what_it_has_not_begun(short: Kind[..., Any]) -> None:
    ids = made(short, "nothing", "stop", "nothing", "nothing")
    assert woken(ids) == ["succeeded", "succeeded", "queued", "queued"]
    assert emptied() == 2


def test_what_would_wait_for_a_slow_one_is_given_back(
    short: Kind[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = made(short, "nothing", "nothing", "nothing")
    monkeypatch.setattr(tasks, "LATEST", 0.0)
    assert woken(ids) == ["succeeded", "queued", "queued"]
    assert emptied() == 2


def test_a_child_that_is_ended_gives_back_what_it_has_not_begun(short: Kind[..., Any]) -> None:
    ids = made(short, "exit", "nothing", "nothing")
    with pytest.raises(SystemExit):
        woken(ids)
    assert set(Job.objects.values_list("state", flat=True)) == {"queued"}
    assert emptied() == 2
