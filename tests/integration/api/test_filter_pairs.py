"""Filters together: all must hold, whichever of them an index is asked first for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import pytest
from django.db.models.functions import Now
from django_filters import ChoiceFilter, UUIDFilter

from jobs.models import Attempt, Job
from jobs.models import Step as StepRow
from tests.integration.api.conftest import Caller
from tests.integration.api.routes import ROUTES, Route, things_of
from tests.integration.bulk_scene import rows
from workspaces.http.filtering import Moment, OnlyTrue
from workspaces.models import Workspace
from workspaces.permissions import Role

Callers = Callable[..., Caller]
pytestmark = pytest.mark.sqlite
LONG_AGO, FAR_AHEAD = "2001-01-01T00:00:00Z", "2101-01-01T00:00:00Z"
FITTING = {  # what the job `doubt` fits; `wait_reason` and `succeeded` are of others
    "state": "dead",
    "cause": "uncertain",
    "kind": "bench.row",
    "key": "doubt-0000",
    "request_id": "request-of-doubt",
    "fingerprint": "print-of-doubt",
    "root_id": "",
    "dead_letter": "true",
    "open_step": "true",
    "created_after": LONG_AGO,
    "created_before": FAR_AHEAD,
    "finished_after": LONG_AGO,
    "finished_before": FAR_AHEAD,
    "run_at_after": LONG_AGO,
    "run_at_before": FAR_AHEAD,
}
FILTERED = [
    route
    for route in ROUTES
    if route.method == "GET" and len(getattr(route.view.filters, "base_filters", ())) > 1
]


@pytest.fixture
def doubt(acme: Workspace) -> Job:
    """A job that fits everything, among others that fit something."""
    rows(acme, 1, "dead")
    rows(acme, 1, "good", state="succeeded", cause="", kind="a.kind")
    rows(acme, 1, "old", cause="uncertain", created_at="1999-01-01T00:00:00Z")
    (job,) = rows(acme, 1, "doubt", cause="uncertain", request_id="request-of-doubt")
    ended = {"started_at": Now(), "kill_at": Now(), "ended_at": Now()}
    Attempt.objects.create(
        job=job, number=1, outcome="failed", fingerprint="print-of-doubt", **ended
    )
    begun = {"effect": "once", "attempt": 1, "intent_at": Now(), "opens_at": Now()}
    StepRow.objects.create(job=job, name="charge", state="started", **begun)
    return job


def found(me: Caller, query: dict[str, str]) -> set[str]:
    answer = me.get("jobs/", query)
    assert answer.status_code == 200, (query, answer.content)
    return {job["key"] for job in json.loads(answer.content)["results"]}


def test_two_filters_find_the_jobs_that_fit_both(caller: Callers, doubt: Job) -> None:
    me, fitting = caller(Role.VIEWER), {**FITTING, "root_id": str(doubt.root_id)}
    fitting["kind"] = doubt.kind
    alone = {name: found(me, {name: value}) for name, value in fitting.items()}
    assert all("doubt-0000" in keys for keys in alone.values()), alone
    wrong = {
        (one, other): keys
        for one, other in combinations(fitting, 2)
        if (keys := found(me, {one: fitting[one], other: fitting[other]}))
        != alone[one] & alone[other]
    }
    assert wrong == {}
    assert found(me, fitting) == {"doubt-0000"}


@pytest.mark.parametrize("route", FILTERED, ids=str)
def test_any_two_filters_and_all_of_them_are_answered(
    route: Route, caller: Callers, acme: Workspace, tmp_path: Any
) -> None:
    me = caller(Role.ADMIN)
    url = route.url(acme, things_of(acme, str(tmp_path / "ledger")))
    given = dict(some_value(route))
    for names in (*combinations(given, 2), tuple(given)):
        answer = me.get(url, {name: given[name] for name in names})
        assert answer.status_code == 200, (names, answer.getvalue())


def some_value(route: Route) -> Iterator[tuple[str, str]]:
    for name, one in route.view.filters.base_filters.items():
        if isinstance(one, ChoiceFilter):
            yield name, str(one.extra["choices"][0][0])
        elif isinstance(one, UUIDFilter):
            yield name, "01a22c99-e7fe-7d08-aefe-ed4440334311"
        elif isinstance(one, Moment):
            yield name, LONG_AGO
        else:
            yield name, "true" if isinstance(one, OnlyTrue) else "1"
