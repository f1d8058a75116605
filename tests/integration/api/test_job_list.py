"""The list of jobs: what each filter finds, what is refused, and pages that nothing shifts."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from jobs.models import Attempt, Job
from jobs.models import Step as StepRow
from tests.integration.api.conftest import WHO_AND_WHERE, Caller
from tests.integration.bulk_scene import rows
from workspaces.http import keyset
from workspaces.models import Workspace

Callers = Callable[..., Caller]
pytestmark = pytest.mark.sqlite

MINUTE = timedelta(minutes=1)


def keys(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [job["key"] for job in json.loads(response.content)["results"]]


def found(me: Caller, **query: Any) -> list[str]:
    return sorted(keys(me.get("jobs/", query)))


def faults(response: Any) -> dict[str, list[str]]:
    body = json.loads(response.content)
    assert (response.status_code, body["code"]) == (422, "input_invalid")
    errors: dict[str, list[str]] = body["errors"]
    return errors


def walked(me: Caller, query: dict[str, Any], link: str = "next") -> list[list[str]]:
    """The keys of every page, following the links."""
    pages, response = [], me.get("jobs/", query)
    while True:
        pages.append(keys(response))
        url = json.loads(response.content)[link]
        if url is None:
            return pages
        response = me.get(url.removeprefix("http://testserver"))


@pytest.fixture
def all_sorts(acme: Workspace, rival: Workspace) -> None:
    """One job of each sort, named by its key; the rival has the same."""
    queued = {"state": "queued", "cause": "", "finished_at": None}
    for place in (rival, acme):
        (again,) = rows(place, 1, "retried", retried_at=Now())
        rows(place, 1, "dead")
        rows(place, 1, "doubt", cause="uncertain", request_id="request-of-doubt")
        rows(place, 1, "closed", resolved_at=Now(), resolution="looked at")
        rows(place, 1, "waits", **queued, wait_reason="retry", run_at=Now() + 5 * MINUTE)
        rows(place, 1, "ready", **queued)
        rows(place, 1, "gone", state="cancelled", cause="")
        rows(place, 1, "good", state="succeeded", cause="", wait_reason="retry", kind="a.kind")
        rows(
            place,
            1,
            "runs",
            **queued | {"state": "running", "lease_until": Now() + MINUTE},
        )
        Job.objects.filter(pk=again.pk).update(root_id=again.pk)


@pytest.mark.usefixtures("all_sorts")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"state": "dead"}, "closed dead doubt retried"),
        ({"state": "queued"}, "ready waits"),
        ({"state": "running"}, "runs"),
        ({"state": "succeeded"}, "good"),
        ({"state": "cancelled"}, "gone"),
        ({"cause": "uncertain"}, "doubt"),
        ({"cause": "terminal"}, "closed dead retried"),
        ({"dead_letter": "true"}, "dead doubt"),
        ({"dead_letter": "true", "cause": "terminal"}, "dead"),
        ({"dead_letter": "true", "state": "running"}, ""),
        ({"wait_reason": "retry"}, "waits"),
        ({"kind": "a.kind"}, "good"),
        ({"kind": "a.kind", "state": "dead"}, ""),
        ({"key": "good-0000", "kind": "a.kind"}, "good"),
        ({"key": "dead-0000"}, "dead"),
        ({"key": "nothing"}, ""),
        ({"request_id": "request-of-doubt"}, "doubt"),
    ],
    ids=lambda value: "&".join(value) if isinstance(value, dict) else "",
)
def test_a_filter_finds_its_jobs_of_this_workspace(
    caller: Callers, query: dict[str, str], expected: str
) -> None:
    assert found(caller("viewer"), **query) == [f"{name}-0000" for name in expected.split()]


def test_a_key_finds_the_whole_chain(caller: Callers, acme: Workspace) -> None:
    (first,) = rows(acme, 1, "order")
    (second,) = rows(acme, 1, "order", retry_of=first)
    Job.objects.filter(pk=second.pk).update(root_id=first.pk)
    rows(acme, 1, "other")

    me = caller("viewer")
    assert found(me, key="order-0000") == ["order-0000"] * 2
    assert found(me, root_id=str(first.pk)) == ["order-0000"] * 2


def test_a_fingerprint_is_that_of_the_newest_attempt(caller: Callers, acme: Workspace) -> None:
    (first, second) = rows(acme, 2)
    for job, prints in ((first, ["old", "new"]), (second, ["old"])):
        for number, fingerprint in enumerate(prints, start=1):
            ended = {"started_at": Now(), "kill_at": Now(), "ended_at": Now()}
            Attempt.objects.create(
                job=job, number=number, outcome="failed", fingerprint=fingerprint, **ended
            )

    me = caller("viewer")
    assert found(me, fingerprint="old") == ["o-0001"]
    assert found(me, fingerprint="new") == ["o-0000"]


def test_open_steps_are_those_that_nobody_has_reconciled(caller: Callers, acme: Workspace) -> None:
    open_one, observed, done = rows(acme, 3, cause="uncertain")
    begun = {"effect": "once", "attempt": 1, "intent_at": Now(), "opens_at": Now()}
    StepRow.objects.create(job=open_one, name="charge", state="started", **begun)
    StepRow.objects.create(
        job=observed, name="charge", state="started", observed="happened", **begun
    )
    StepRow.objects.create(job=done, name="charge", state="done", **begun)

    assert found(caller("viewer"), open_step="true") == ["o-0000"]


def test_ranges_of_time_include_their_ends(caller: Callers, acme: Workspace) -> None:
    now = timezone.now().replace(microsecond=0)
    for age, name in ((3, "old"), (2, "middle"), (1, "new")):
        moment = now - age * MINUTE
        rows(acme, 1, name, created_at=moment, finished_at=moment, run_at=moment)
    middle, me = (now - 2 * MINUTE).isoformat(), caller("viewer")

    for name in ("created", "finished", "run_at"):
        assert found(me, **{f"{name}_after": middle}) == ["middle-0000", "new-0000"]
        assert found(me, **{f"{name}_before": middle}) == ["middle-0000", "old-0000"]
        both = {f"{name}_after": middle, f"{name}_before": middle}
        assert found(me, **both) == ["middle-0000"]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("stat=dead", "stat"),
        ("state=broken", "state"),
        ("state=", "state"),
        ("state=dead&state=queued", "state"),
        ("dead_letter=yes", "dead_letter"),
        ("root_id=42", "root_id"),
        ("kind=%00", "kind"),
        (f"kind={'k' * 101}", "kind"),
        ("created_after=yesterday", "created_after"),
        ("created_after=2026-11-30T09:00:00", "created_after"),
        ("created_after=0001-01-01T00:00:00%2B14:00", "created_after"),
        ("finished_before=9999-12-31T23:59:59-14:00", "finished_before"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=ten", "limit"),
        ("limit=²", "limit"),
        ("format=xml", "format"),
    ],
)
def test_an_unknown_filter_and_a_wrong_value_are_named(
    caller: Callers, query: str, name: str
) -> None:
    assert list(faults(caller("viewer").get(f"jobs/?{query}"))) == [name]


@pytest.mark.parametrize(
    "cursor", ["x", "%00", "ä", "bHQgeA", "bHQg", "ZXhhY3QgMQ", "bHQgMDE4", "=" * 4000]
)
def test_a_cursor_that_nobody_gave_is_refused(caller: Callers, cursor: str) -> None:
    response = caller("viewer").get(f"jobs/?cursor={cursor}")

    assert (response.status_code, json.loads(response.content)["code"]) == (400, "cursor_invalid")


@pytest.mark.parametrize("query", [{}, {"kind": "drills.bulk"}, {"state": "dead"}])
def test_pages_hold_every_job_once_newest_first(
    caller: Callers, acme: Workspace, query: dict[str, str]
) -> None:
    jobs = [job.key for job in reversed(rows(acme, 7))]
    me = caller("viewer")

    assert walked(me, {**query, "limit": 3}) == [jobs[:3], jobs[3:6], jobs[6:]]


def test_what_is_added_meanwhile_shifts_no_page(caller: Callers, acme: Workspace) -> None:
    jobs = [job.key for job in reversed(rows(acme, 4))]
    me = caller("viewer")
    first = json.loads(me.get("jobs/", {"limit": 2}).content)
    rows(acme, 3, "late")

    second = me.get(first["next"].removeprefix("http://testserver"))

    assert keys(second) == jobs[2:]
    back = me.get(json.loads(second.content)["previous"].removeprefix("http://testserver"))
    assert keys(back) == jobs[:2]
    newer = me.get(json.loads(back.content)["previous"].removeprefix("http://testserver"))
    assert keys(newer) == ["late-0001", "late-0000"]


@pytest.mark.parametrize("query", [{"kind": "a.rare"}, {"kind": "a.rare", "state": "dead"}])
def test_rare_jobs_are_found_over_several_windows_both_ways(
    caller: Callers, acme: Workspace, query: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyset, "WINDOW", 5)
    for n in range(3):
        rows(acme, 7, f"many{n}")
        rows(acme, 1, f"rare{n}", kind="a.rare")
    rows(acme, 11, "many")
    me = caller("viewer")

    pages = walked(me, {**query, "limit": 1})
    assert [key for page in pages for key in page] == ["rare2-0000", "rare1-0000", "rare0-0000"]
    assert [] in pages

    last = me.get("jobs/", {**query, "limit": 1})
    while (url := json.loads(last.content)["next"]) is not None:
        last = me.get(url.removeprefix("http://testserver"))
    seen = []
    while (url := json.loads(last.content)["previous"]) is not None:
        last = me.get(url.removeprefix("http://testserver"))
        seen += keys(last)
    expected = ["rare0-0000", "rare1-0000", "rare2-0000"]
    assert seen[-3:] == expected


def test_a_link_from_an_empty_page_leads_back_without_a_gap(
    caller: Callers, acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyset, "WINDOW", 2)
    rows(acme, 1, "rare", kind="a.rare")
    rows(acme, 4, "many")
    me = caller("viewer")

    empty = json.loads(me.get("jobs/", {"kind": "a.rare"}).content)
    assert empty["results"] == []
    second = json.loads(me.get(empty["next"].removeprefix("http://testserver")).content)
    third = json.loads(me.get(second["next"].removeprefix("http://testserver")).content)
    assert [job["key"] for job in third["results"]] == ["rare-0000"]
    back = json.loads(me.get(third["previous"].removeprefix("http://testserver")).content)
    assert back["results"] == []
    again = json.loads(me.get(back["next"].removeprefix("http://testserver")).content)
    assert [job["key"] for job in again["results"]] == ["rare-0000"]


def test_the_number_of_queries_does_not_depend_on_the_number_of_jobs(
    caller: Callers, acme: Workspace, django_assert_num_queries: Any
) -> None:
    me = caller("viewer")
    me.get("jobs/")  # notes the use of the token
    for query, queries in (({}, 1), ({"state": "dead"}, 1), ({"kind": "drills.bulk"}, 2)):
        for count in (1, 120):
            Job.objects.all().delete()
            rows(acme, count)
            with django_assert_num_queries(queries + WHO_AND_WHERE):
                assert len(keys(me.get("jobs/", {**query, "limit": 200}))) == count
