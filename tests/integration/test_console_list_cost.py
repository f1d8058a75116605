"""What the console's lists of jobs cost: the same among ten thousand jobs and ten times as many."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.admin.newest import MOST, PLACES, WINDOW
from jobs.models import Job
from tests.integration.api.test_list_cost import FEW, MANY, analyze, generate, nodes, touched
from tests.integration.console_scene import at_console
from workspaces.models import Workspace
from workspaces.permissions import Role

pytestmark = pytest.mark.django_db(transaction=True)

JOBS, LETTERS = "/admin/jobs/job/", "/admin/jobs/deadletter/"
ADDRESSES = (
    JOBS,
    f"{JOBS}?p=3",
    f"{JOBS}?state=queued",
    f"{JOBS}?state=running",
    f"{JOBS}?state=dead",
    f"{JOBS}?state=cancelled",
    f"{JOBS}?state=succeeded",
    f"{JOBS}?cause=uncertain",
    f"{JOBS}?cause=terminal",
    f"{JOBS}?kind=drills.bulk",
    f"{JOBS}?kind=drills.noop&state=dead",
    f"{JOBS}?workspace=acme",
    f"{JOBS}?workspace=acme&kind=drills.bulk",
    f"{JOBS}?workspace=rival&state=dead",
    f"{JOBS}?q=order-77000",
    f"{JOBS}?q=request-7",
    LETTERS,
    f"{LETTERS}?cause=uncertain",
    f"{LETTERS}?kind=drills.bulk",
    f"{LETTERS}?workspace=acme",
)
BOUND = WINDOW + 4 * MOST
"""What a window gives, then the ids of a list: counted, cut into a page, and its rows."""


@pytest.fixture(params=[FEW, MANY])
def among(request: pytest.FixtureRequest) -> Iterator[int]:
    """A workspace with so many jobs beside one with few."""
    acme, rival = (Workspace.objects.create(slug=s, name=s) for s in ("acme", "rival"))
    generate(acme, request.param)
    generate(rival, FEW, version="7001")
    analyze()
    yield request.param
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_job CASCADE")


def plan_of(client: Client, address: str) -> list[dict[str, Any]]:
    """Every node of the plan of every query of jobs that the page makes."""
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    asked = [query["sql"] for query in captured.captured_queries if '"jobs_job"' in query["sql"]]
    found: list[dict[str, Any]] = []
    for sql in asked:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
            (raw,) = cursor.fetchone()
        found += nodes((raw if isinstance(raw, list) else json.loads(raw))[0]["Plan"])
    return found


def test_a_list_reads_no_more_rows_than_it_may(among: int) -> None:
    acme = Workspace.objects.get(slug="acme")
    for client in (at_console("all"), at_console("mine", Role.VIEWER, acme)):
        for address in ADDRESSES:
            plan = plan_of(client, address)
            assert plan or "rival" in address, address
            scans = [node for node in plan if node["Node Type"] == "Seq Scan"]
            assert "jobs_job" not in [node["Relation Name"] for node in scans], address
            assert touched(plan) <= BOUND, (address, touched(plan))


def test_among_many_workspaces_the_newest_come_by_their_ids(among: int) -> None:
    Workspace.objects.bulk_create(Workspace(slug=f"w{n}", name=f"w{n}") for n in range(PLACES))
    client = at_console("all")
    for address in (JOBS, f"{JOBS}?kind=drills.bulk", f"{JOBS}?workspace=acme", LETTERS):
        assert touched(plan_of(client, address)) <= BOUND, address


def test_a_list_shows_the_newest_and_says_that_there_are_more(among: int) -> None:
    client = at_console("all")
    page: Any = client.get(JOBS)
    newest = list(Job.objects.order_by("-id").values_list("pk", flat=True)[:50])
    assert [job.pk for job in page.context["cl"].result_list] == newest
    assert page.context["cl"].result_count == MOST
    assert "Only the newest were looked at" in page.content.decode()
    found: Any = client.get(f"{JOBS}?q=request-7")
    assert sorted(job.workspace.slug for job in found.context["cl"].result_list) == [
        "acme",
        "rival",
    ]
    assert "Only the newest were looked at" not in found.content.decode()
