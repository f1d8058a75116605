"""The events of a job: by cursor, and by a wait that ends and that holds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.db.models.functions import Now

from jobs.api import answers, events
from jobs.events import emit
from jobs.models import Event, Job
from jobs.recovery.resolve import resolve
from jobs.testing import drain
from tests.drills.kinds import noop, secretive
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.jobs_scene import body, waiting
from tests.integration.api.shapes import faults
from tests.waiting import wait_until
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

Callers = Callable[..., Caller]

CARD = "4000-canary-card-0002"


@pytest.fixture
def job(acme: Workspace) -> Job:
    return waiting(noop.s(), acme)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one each time that a feed is read."""
    seen: list[int] = []
    read = events.Feed.read

    def counted(feed: events.Feed) -> Any:
        try:
            return read(feed)
        finally:
            seen.append(1)

    monkeypatch.setattr(events.Feed, "read", counted)
    monkeypatch.setattr(events, "POLL_SECONDS", 0.05)
    return seen


def tell(job: Job, *types: str) -> list[int]:
    return [emit(name, job.workspace_id, job.pk, {"n": name}).pk for name in types]


@pytest.fixture
def waits(looks: list[int]) -> Iterator[Callable[[Caller, Job], Future[Any]]]:
    """Begin a request that waits, and return once it has looked twice and found nothing."""
    with ThreadPoolExecutor(1) as pool:

        def begun(me: Caller, job: Job, after: int = 0) -> Future[Any]:
            asked = pool.submit(asked_and_closed, me, job, after)
            wait_until(lambda: len(looks) >= 2)
            return asked

        yield begun


def asked_and_closed(me: Caller, job: Job, after: int) -> Any:
    try:
        return me.get(f"jobs/{job.pk}/events/", {"wait": 20, "after": after})
    finally:
        connections.close_all()


@pytest.mark.sqlite
def test_events_come_oldest_first_from_the_cursor_on(
    caller: Callers, job: Job, acme: Workspace
) -> None:
    me = caller("viewer")
    ids = tell(job, "a.one", "a.two", "a.three")
    tell(waiting(noop.s(), acme, "another"), "a.foreign")

    first = body(me.get(f"jobs/{job.pk}/events/", {"limit": 2}))
    second = body(me.get(f"jobs/{job.pk}/events/", {"after": first["after"]}))
    third = body(me.get(f"jobs/{job.pk}/events/", {"after": second["after"]}))

    assert [event["id"] for event in first["results"] + second["results"]] == ids
    assert [event["type"] for event in first["results"]] == ["a.one", "a.two"]
    assert (third["results"], third["after"]) == ([], ids[-1])
    assert first["job"] == {
        "state": "queued",
        "cause": "",
        "attempt": 0,
        "progress": None,
        "final": False,
    }
    assert faults(answers.EventFeed(), first) == []


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "query",
    [
        "after=-1",
        "after=x",
        "after=1_0",
        "after=%D9%A3",
        "after=9223372036854775808",
        "after=1e3",
        "after=",
        "wait=21",
        "wait=-1",
        "wait=1.5",
        "limit=201",
        "cursor=x",
        "since=1",
    ],
)
def test_a_query_that_is_wrong_is_named(caller: Callers, job: Job, query: str) -> None:
    told = problem(caller().get(f"jobs/{job.pk}/events/?{query}"))

    assert (told["code"], list(told["errors"])) == ("input_invalid", [query.partition("=")[0]])


@pytest.mark.sqlite
def test_a_foreign_job_has_no_events(caller: Callers, job: Job, rival: Workspace) -> None:
    tell(job, "a.one")

    assert caller(workspace=rival).get(f"jobs/{job.pk}/events/").status_code == 404


@pytest.mark.sqlite
def test_a_wait_ends_with_an_event(
    caller: Callers, job: Job, waits: Callable[..., Future[Any]]
) -> None:
    asked = waits(caller(), job)

    (told,) = tell(job, "a.one")

    assert [event["id"] for event in body(asked.result(20))["results"]] == [told]


@pytest.mark.sqlite
def test_a_wait_ends_with_progress(
    caller: Callers, job: Job, waits: Callable[..., Future[Any]]
) -> None:
    asked = waits(caller(), job)

    Job.objects.filter(pk=job.pk).update(progress={"fraction": 0.5, "text": "half"})

    assert body(asked.result(20))["job"]["progress"] == {"fraction": 0.5, "text": "half"}


@pytest.mark.sqlite
def test_a_wait_ends_with_the_job_though_a_success_leaves_no_event(
    caller: Callers, job: Job, waits: Callable[..., Future[Any]]
) -> None:
    asked = waits(caller(), job)

    Job.objects.filter(pk=job.pk).update(state="succeeded", finished_at=Now())

    answer = body(asked.result(20))
    assert (answer["results"], answer["job"]["final"]) == ([], True)


@pytest.mark.sqlite
def test_a_wait_ends_by_itself(caller: Callers, job: Job, looks: list[int]) -> None:
    answer = caller().get(f"jobs/{job.pk}/events/", {"wait": 1})

    assert (answer.status_code, body(answer)["results"]) == (200, [])
    assert len(looks) > 1


@pytest.mark.sqlite
def test_nobody_waits_for_a_job_that_has_ended(caller: Callers, job: Job, looks: list[int]) -> None:
    Job.objects.filter(pk=job.pk).update(state="succeeded", finished_at=Now())

    assert body(caller().get(f"jobs/{job.pk}/events/", {"wait": 20}))["job"]["final"]
    assert len(looks) == 1


@pytest.mark.sqlite
def test_what_happened_to_a_pruned_job_ends_its_wait(
    caller: Callers, job: Job, waits: Callable[..., Future[Any]]
) -> None:
    (told,) = tell(job, "a.one")
    asked = waits(caller(), job, told)

    with transaction.atomic():
        Job.objects.filter(pk=job.pk).delete()
        emit("a.two", job.workspace_id, job.pk, {})

    assert len(body(asked.result(20))["results"]) == 1


@pytest.mark.sqlite
def test_only_so_many_wait_at_once(caller: Callers, job: Job, looks: list[int]) -> None:
    places = [events._places.acquire(blocking=False) for _ in range(events.WAITING_AT_ONCE)]
    try:
        answer = caller().get(f"jobs/{job.pk}/events/", {"wait": 20})
    finally:
        for _ in filter(None, places):
            events._places.release()

    assert (answer.status_code, len(looks)) == (200, 1)


@pytest.mark.sqlite
def test_places_are_given_back(caller: Callers, job: Job, looks: list[int]) -> None:
    me = caller()
    for _ in range(events.WAITING_AT_ONCE + 1):
        del looks[:]
        me.get(f"jobs/{job.pk}/events/", {"wait": 1})
        assert len(looks) > 1


@pytest.mark.sqlite
def test_events_hold_no_secret_of_their_job(caller: Callers, acme: Workspace) -> None:
    job = waiting(secretive.s(ledger="/dev/null", card={"number": CARD}, fault="leak"), acme)
    drain()
    resolve(job.pk, actor=SYSTEM, reason=f"paid by hand with {CARD}, password=hunter2-canary")

    told = caller().get(f"jobs/{job.pk}/events/").content.decode()

    assert Event.objects.filter(subject=str(job.pk)).count() >= 2
    assert "canary" not in told
    assert "[hidden]" in told


def test_a_wait_holds_no_transaction(
    caller: Callers, job: Job, waits: Callable[..., Future[Any]]
) -> None:
    asked = waits(caller(), job)

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        states = {row[0] for row in cursor.fetchall()}
    tell(job, "a.one")

    assert asked.result(20).status_code == 200
    assert "idle in transaction" not in states
    assert "idle" in states
