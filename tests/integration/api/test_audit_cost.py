"""What a page of the audit trail costs: no more in a long trail, beside one that is longer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from tests.integration.api.conftest import Caller
from tests.integration.api.test_list_cost import plans, scanned_whole, touched
from workspaces.http.keyset import LIMIT, WINDOW
from workspaces.models import Workspace

Callers = Callable[..., Caller]
COUNT = 60_000
TABLE = "workspaces_auditevent"
# What is looked for lies far from the newest, and far from the oldest.
GENERATED = """
INSERT INTO workspaces_auditevent (workspace_id, actor, actor_label, action, object_type,
  object_id, reason, request_id, result, created_at)
SELECT %(workspace)s, CASE WHEN n %% 5000 = 7 THEN 'user:9' ELSE 'user:1' END, 'Ana', 'job.resume',
  'job', 'job-' || n, 'why', 'request-' || n,
  CASE WHEN n = 700 THEN 'not_allowed' ELSE 'done' END,
  now() + (n - %(count)s) * interval '1 minute'
FROM generate_series(1, %(count)s) AS n
"""


def generate(workspace: Workspace) -> None:
    with connection.cursor() as cursor:
        cursor.execute(GENERATED, {"workspace": workspace.pk, "count": COUNT})


def test_a_page_reads_what_it_shows_or_a_bounded_window(
    caller: Callers, acme: Workspace, rival: Workspace
) -> None:
    me = caller()
    generate(acme)
    generate(rival)
    with connection.cursor() as cursor:
        cursor.execute(f"VACUUM ANALYZE {TABLE}")
    then = (timezone.now() - timedelta(minutes=COUNT // 2)).isoformat().replace("+00:00", "Z")
    answered = ("", "actor=user:9", "object_id=job-7", "request_id=request-7", "actor=user:1")
    looked_for = (
        "result=not_allowed",
        "action=job.cancel",
        f"created_before={then}",
        f"created_after={then}&result=not_allowed",
        f"created_after={then}&created_before={then}",
    )

    for query in answered:
        plan = plans(me, f"audit/?{query}", TABLE)
        assert (touched(plan) <= LIMIT + 1, scanned_whole(plan)) == (True, []), query
    for query in looked_for:
        plan = plans(me, f"audit/?{query}", TABLE)
        assert (touched(plan) <= WINDOW + LIMIT + 3, scanned_whole(plan)) == (True, []), query


@pytest.mark.parametrize("asked", ["created_after", "created_before"])
def test_a_moment_is_found_by_index(
    caller: Callers, acme: Workspace, rival: Workspace, asked: str
) -> None:
    me = caller()
    generate(rival)
    generate(acme)
    with connection.cursor() as cursor:
        cursor.execute(f"VACUUM ANALYZE {TABLE}")
    old = (timezone.now() - timedelta(minutes=COUNT - 500)).isoformat().replace("+00:00", "Z")
    plan = plans(me, f"audit/?{asked}={old}", TABLE)
    assert touched(plan) <= WINDOW + LIMIT + 3
    assert scanned_whole(plan) == []
