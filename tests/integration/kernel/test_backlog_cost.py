"""What a long backlog costs those who take jobs from it: the same as a short one.

Statistics are from a time when nothing waited, as they are at the beginning of every burst. Not
by the clock: PostgreSQL tells how many rows were fetched. It alone: inline mode has no messages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest
from django.db import connection

from jobs import moves
from jobs.fence import Claim, Wake
from tests.drills.kinds import noop
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db
T = TypeVar("T")

KIND, GATES, SHARE = noop.name, 10, 4
LONG = 3000
# Job number n waits behind one of the gates, the first longest.
GENERATED = """
INSERT INTO jobs_job (id, workspace_id, kind, key, params, params_digest, queue, gate, state,
  run_at, wake_at, finished_at, root_id, actor)
SELECT gen_random_uuid(), %(workspace)s, %(kind)s, %(state)s || n, '{}', '', 'default',
  'gate:' || n %% %(gates)s, %(state)s, now(), now() + (n - %(count)s) * interval '1 second',
  CASE WHEN %(state)s <> 'queued' THEN now() END, gen_random_uuid(), 'system'
FROM generate_series(1, %(count)s) AS n
"""
FETCHED = """SELECT COALESCE(seq_tup_read, 0) + COALESCE(idx_tup_fetch, 0)
FROM pg_stat_xact_user_tables WHERE relname = 'jobs_job'"""


@pytest.fixture
def backlog(shop: Workspace) -> None:
    """What waits since the last look at the table, beside as much that has ended."""
    told: dict[str, int | str] = {"workspace": shop.pk, "kind": KIND, "gates": GATES, "count": LONG}
    with connection.cursor() as cursor:
        cursor.execute(GENERATED, {**told, "state": "succeeded"})
        cursor.execute("ANALYZE jobs_job")
        cursor.execute(GENERATED, {**told, "state": "queued"})


def fetched() -> int:
    with connection.cursor() as cursor:
        cursor.execute(FETCHED)
        return int(cursor.fetchone()[0])


def costs(work: Callable[[], T]) -> tuple[T, int]:
    """What the work returned, and how many rows of jobs were fetched for it."""
    before = fetched()
    answer = work()
    return answer, fetched() - before


def claimed(wake: Wake) -> Claim | None:
    return moves.claim(wake.job_id, KIND, worker="w", lease=60, time_limit=60)


@pytest.mark.usefixtures("backlog")
def test_a_turn_of_the_shares_behind_gates_looks_at_few_more_than_it_takes() -> None:
    for _ in range(3):  # the second and third meet what the first has published, and what runs
        wakes, cost = costs(lambda: moves.take_gate_shares(KIND, SHARE, 500))
        assert cost < LONG / 6
        for wake in wakes[::2]:
            assert claimed(wake)
    assert len(moves.take_gate_shares(KIND, SHARE + 1, 500)) == GATES


@pytest.mark.usefixtures("backlog")
def test_a_claim_looks_at_its_own_job_alone() -> None:
    for wake in moves.take_gate_shares(KIND, SHARE, 500):
        claim, cost = costs(partial(claimed, wake))
        assert claim
        assert cost <= 2


@pytest.mark.usefixtures("backlog")
def test_what_is_due_is_taken_without_a_look_at_the_rest() -> None:
    wakes, cost = costs(lambda: moves.take_due(20))
    assert len(wakes) == 20
    assert cost <= 2 * len(wakes)
