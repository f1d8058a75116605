"""What a page of the list of jobs costs: the same among ten thousand jobs and ten times as many.

Not by the clock: PostgreSQL tells how many rows each part of each query touched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.integration.api.conftest import Caller
from workspaces.http.keyset import LIMIT, WINDOW
from workspaces.models import Workspace

Callers = Callable[..., Caller]

FEW, MANY = 10_000, 100_000
PAGE = LIMIT + 1
# Job number n of `count`, one each second, the newest now. Rare sorts lie far from the newest:
# a plan that walks from the newest would look at every job.
GENERATED = """
INSERT INTO jobs_job (id, workspace_id, kind, key, params, params_digest, queue, state, cause,
  wait_reason, run_at, wake_at, lease_until, created_at, finished_at, resolved_at, retried_at,
  root_id, actor, request_id)
SELECT j.id, %(workspace)s, j.kind, 'order-' || n || %(version)s, '{"n": 1}', '', 'default',
  j.state,
  CASE WHEN j.state = 'dead' THEN CASE WHEN n %% 500 = 0 THEN 'uncertain' ELSE 'terminal' END
    ELSE '' END,
  CASE WHEN j.state = 'queued' THEN 'retry' ELSE '' END, j.at, j.at,
  CASE WHEN j.state = 'running' THEN j.at END, j.at,
  CASE WHEN j.state IN ('succeeded', 'dead', 'cancelled') THEN j.at END,
  CASE WHEN j.state = 'dead' AND n %% 50 <> 0 THEN j.at END, NULL, j.id, 'system',
  CASE WHEN n < 1000 THEN 'request-' || n ELSE '' END
FROM (SELECT n, at, state, kind, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0')
    || %(version)s || '8' || lpad(to_hex(n), 15, '0'))::uuid AS id
  FROM (SELECT n, now() + (n - %(count)s + %(later)s) * interval '1 second' AS at,
    CASE WHEN n < 1500 THEN 'queued' WHEN n < 1510 THEN 'running' WHEN n < 4500 THEN 'dead'
      WHEN n < 4700 THEN 'cancelled' ELSE 'succeeded' END AS state,
    CASE WHEN n < 100 THEN 'drills.bulk' ELSE 'drills.noop' END AS kind
    FROM generate_series(1, %(count)s) AS n) AS numbered) AS j
"""
ANSWERED = {  # by one index alone: a page of its entries, and what their rows need
    "": PAGE,
    "state=queued": PAGE,
    "state=running": PAGE,
    "state=dead": PAGE,
    "state=cancelled": PAGE,
    "dead_letter=true": PAGE,
    "cause=uncertain": PAGE,
    "request_id=request-7": PAGE,
    "key=order-77000": PAGE,
    "key=order-77000&kind=drills.bulk": PAGE,
}
LOOKED_FOR = (  # in a window of what an index gives
    "state=succeeded",
    "kind=drills.bulk",
    "kind=drills.noop&state=dead",
    "cause=terminal",
    "wait_reason=retry",
    "dead_letter=true&kind=drills.bulk",
    "open_step=true",
    "fingerprint=abc",
    "finished_after={now}",
    "created_after={then}&created_before={now}",
    "run_at_before={then}",
)


def generate(workspace: Workspace, count: int, version: str = "7000", later: int = 0) -> None:
    told: dict[str, int | str] = {"workspace": workspace.pk, "count": count}
    with connection.cursor() as cursor:
        cursor.execute(GENERATED, {**told, "version": version, "later": later})


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def plans(me: Caller, path: str, table: str = "jobs_job") -> list[dict[str, Any]]:
    """Every node of the plan of every query of a table that the request makes."""
    with CaptureQueriesContext(connection) as captured:
        assert me.get(path).status_code == 200
    found: list[dict[str, Any]] = []
    for query in captured.captured_queries:
        if f'FROM "{table}"' in query["sql"]:
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query['sql']}")
                (raw,) = cursor.fetchone()
            top = raw if isinstance(raw, list) else json.loads(raw)
            found += nodes(top[0]["Plan"])
    assert found
    return found


def analyze() -> None:
    """Have every row in the planner's statistics, so that its choice hangs on no sample."""
    with connection.cursor() as cursor:
        cursor.execute("SET default_statistics_target = 1000")
        cursor.execute("VACUUM (FULL, ANALYZE) jobs_job")
        cursor.execute("RESET default_statistics_target")


def touched(plan: list[dict[str, Any]]) -> int:
    """Rows that the scans gave or threw away, each as often as it was done."""
    thrown = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    return sum(
        (node["Actual Rows"] + sum(node.get(name, 0) for name in thrown)) * node["Actual Loops"]
        for node in plan
        if "Scan" in node["Node Type"] and node["Node Type"] != "Bitmap Index Scan"
    )


def scanned_whole(plan: list[dict[str, Any]]) -> list[str]:
    return [node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"]


def paths(query: str) -> str:
    now, then = timezone.now(), timezone.now() - timedelta(minutes=90)
    return "jobs/?" + query.format(
        now=now.isoformat().replace("+", "%2B"), then=then.isoformat().replace("+", "%2B")
    )


@pytest.fixture
def among(acme: Workspace, rival: Workspace, caller: Callers) -> Iterator[Callable[[int], Caller]]:
    """A caller of a workspace with so many jobs, beside another one with as few."""

    def made(count: int) -> Caller:
        generate(acme, count)
        generate(rival, FEW, version="7001")
        analyze()
        return caller("viewer")

    yield made
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_job CASCADE")


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_page_touches_no_more_rows_than_it_may(
    among: Callable[[int], Caller], count: int
) -> None:
    me = among(count)

    for query, most in ANSWERED.items():
        plan = plans(me, paths(query))
        assert scanned_whole(plan) == [], query
        assert touched(plan) <= most, (query, touched(plan))
    for query in LOOKED_FOR:
        plan = plans(me, paths(query))
        assert "jobs_job" not in scanned_whole(plan), query
        assert touched(plan) <= 2 * WINDOW + PAGE, (query, touched(plan))


def test_a_page_in_the_middle_costs_what_the_first_does(
    among: Callable[[int], Caller],
) -> None:
    me = among(FEW)

    for query in ("", "state=dead", "kind=drills.bulk"):
        url = paths(query)
        for _ in range(4):
            url = json.loads(me.get(url).content)["next"].removeprefix("http://testserver")
        plan = plans(me, url)
        assert "jobs_job" not in scanned_whole(plan), query
        assert touched(plan) <= (PAGE if query != "kind=drills.bulk" else WINDOW + PAGE), query


def test_a_workspace_that_was_quiet_does_not_pay_for_the_busy_ones(
    among: Callable[[int], Caller], rival: Workspace
) -> None:
    me = among(FEW)
    generate(rival, 3 * FEW, version="7002", later=10 * FEW)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job")

    for query in ("", "state=dead", "cause=uncertain"):
        assert touched(plans(me, paths(query))) <= PAGE, query
