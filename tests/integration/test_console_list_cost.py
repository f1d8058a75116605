"""What the console's lists of jobs cost: the same among ten thousand jobs and ten times as many."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.admin.newest import MOST, WINDOW
from jobs.models import DeadLetter, Job
from jobs.models.job import DEAD_LETTER
from tests.integration.api.test_list_cost import FEW, MANY, analyze, generate, nodes, touched
from tests.integration.console_scene import at_console
from workspaces.models import Membership, Workspace
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
    f"{JOBS}?wait=retry",
    f"{JOBS}?wait=lock",
    f"{JOBS}?kind=drills.bulk",
    f"{JOBS}?kind=drills.noop&state=dead",
    f"{JOBS}?workspace=acme",
    f"{JOBS}?workspace=acme&kind=drills.bulk",
    f"{JOBS}?workspace=rival&state=dead",
    f"{JOBS}?workspace=acme&wait=retry",
    f"{JOBS}?q=order-77000",
    f"{JOBS}?q=request-7",
    LETTERS,
    f"{LETTERS}?cause=uncertain",
    f"{LETTERS}?kind=drills.bulk",
    f"{LETTERS}?workspace=acme",
)
BOUND = 3 * WINDOW + 4 * MOST
"""A window, and twice as much again of those that have the newest; then the ids of a list:
counted, cut into a page, and its rows."""


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
    found: list[dict[str, Any]] = []
    setting = ""
    for sql in (query["sql"] for query in captured.captured_queries):
        if sql.startswith("SET LOCAL"):
            setting = f"{sql};"  # of the one read that follows
        elif '"jobs_job"' in sql:
            found += nodes(explained(sql, setting)[0]["Plan"])
            setting = ""
    return found


def explained(sql: str, setting: str) -> Any:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"{setting} SELECT 1")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
        (raw,) = cursor.fetchone()
    return raw if isinstance(raw, list) else json.loads(raw)


def test_a_list_reads_no_more_rows_than_it_may(among: int) -> None:
    acme = Workspace.objects.get(slug="acme")
    for client in (at_console("all"), at_console("mine", Role.VIEWER, acme)):
        for address in ADDRESSES:
            plan = plan_of(client, address)
            assert plan or "rival" in address, address
            scans = [node for node in plan if node["Node Type"] == "Seq Scan"]
            assert "jobs_job" not in [node["Relation Name"] for node in scans], address
            assert touched(plan) <= BOUND, (address, touched(plan))


@pytest.fixture
def many(transactional_db: None) -> Iterator[list[Workspace]]:
    """Twelve workspaces with thousands in each state, and one more in which all wait."""
    places = [Workspace.objects.create(slug=f"w{n}", name=f"w{n}") for n in range(12)]
    for number, place in enumerate(places):
        generate(place, 4_700, version=f"7{number:03x}")
    crowded = Workspace.objects.create(slug="crowded", name="crowded")
    generate(crowded, 2 * FEW, version="7fff")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_job SET state = 'queued', wait_reason = 'lock', finished_at = NULL"
            " WHERE workspace_id = %s AND state = 'succeeded'",
            [crowded.pk],
        )
    analyze()
    yield [*places, crowded]
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_job CASCADE")


def test_of_many_workspaces_no_list_reads_all_that_is_in_a_state(many: list[Workspace]) -> None:
    """More than 30,000 wait, and as many are dead."""
    member = at_console("member")
    for place in many[5:]:
        user = User.objects.get(username="member")
        Membership.objects.create(user=user, workspace=place, role=Role.VIEWER)
    for client in (at_console("all"), member):
        for address in (*ADDRESSES, f"{JOBS}?workspace=crowded&wait=retry"):
            plan = plan_of(client, address)
            scans = [node for node in plan if node["Node Type"] == "Seq Scan"]
            assert "jobs_job" not in [node["Relation Name"] for node in scans], address
            assert touched(plan) <= BOUND, (address, touched(plan))


def test_the_newest_of_many_workspaces_are_the_newest(many: list[Workspace]) -> None:
    client = at_console("all")
    orders = {
        f"{JOBS}?state=queued&": Job.objects.filter(state="queued").order_by("-id"),
        f"{JOBS}?state=dead&": Job.objects.filter(state="dead").order_by("-id"),
        f"{LETTERS}?": DeadLetter.objects.filter(DEAD_LETTER).order_by("-finished_at", "-id"),
    }
    for address, rows in orders.items():
        newest = list(rows.values_list("pk", flat=True)[:MOST])
        for number in (1, len(newest) // 50):
            shown: Any = client.get(f"{address}p={number}")
            ids = [job.pk for job in shown.context["cl"].result_list]
            assert ids == newest[50 * (number - 1) : 50 * number], address
        assert shown.context["cl"].cut is (rows.count() > MOST), address


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
