"""What a claim takes, what it leaves, and what it tells its worker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import moves
from jobs.fence import Claim, Fence
from jobs.models import Gate, Job
from jobs.models.ids import uuid7
from tests.integration.kernel.standing import QUEUED, WORKER, made, values_of
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db
on_both = pytest.mark.sqlite

LEASE, LIMIT = 60.0, 900.0
HOUR = timedelta(hours=1)


def claim(job: Job, kind: str = "drills.noop") -> Claim | None:
    return moves.claim(job.pk, kind, worker=WORKER, lease=LEASE, time_limit=LIMIT)


@on_both
def test_a_claim_is_written_into_the_row_with_its_lease_and_its_hard_limit(shop: Workspace) -> None:
    job = made(shop, **QUEUED, attempt=4, worker="before")
    before = values_of(job)
    assert claim(job)
    after = values_of(job)
    began = after.pop("started_at")
    assert after.pop("lease_until") - began == timedelta(seconds=LEASE)
    assert after.pop("kill_at") - began == timedelta(seconds=LIMIT)
    assert began >= job.run_at
    same = {name: value for name, value in before.items() if name in after}
    assert after == {**same, "state": "running", "attempt": 5, "worker": WORKER}


@on_both
def test_a_claim_tells_its_worker_what_it_has_to_know(shop: Workspace) -> None:
    kept: dict[str, Any] = {
        "version": 7, "root_id": uuid7(), "epoch": 3, "failures": 2, "losses": 1,
        "request_id": "r-1", "traceparent": "00-a-b-01", "gate": "bank",
    }  # fmt: skip
    job = made(shop, "k", **QUEUED, **kept, attempt=4, deadline_at=Now() + HOUR)
    earliest = time.monotonic() + LIMIT
    claimed = claim(job)
    assert claimed is not None
    assert claimed.fence == Fence(job.pk, 5, WORKER, LEASE)
    assert {name: getattr(claimed, name) for name in kept} == kept
    assert (claimed.kind, claimed.key, claimed.params) == ("drills.noop", "k", "{}")
    assert (claimed.workspace_id, claimed.is_retry) == (shop.pk, False)
    assert claimed.seconds_left == pytest.approx(3600, abs=60)
    assert earliest <= claimed.kill_at <= time.monotonic() + LIMIT


@on_both
def test_a_job_without_a_deadline_has_no_end_of_time_and_a_retry_knows_that_it_is_one(
    shop: Workspace,
) -> None:
    before = made(shop, "k", state="dead", cause="terminal", finished_at=Now())
    claimed = claim(made(shop, "l", **QUEUED, deadline_at=None, retry_of=before))
    assert claimed is not None
    assert (claimed.seconds_left, claimed.is_retry) == (None, True)


WAITS: dict[str, dict[str, Any]] = {
    "is not due yet": {"run_at": Now() + HOUR},
    "is past its deadline": {"deadline_at": Now() - HOUR},
    "was asked to stop": {"cancel_requested_at": Now()},
    "is of another kind": {"kind": "drills.once"},
}


@on_both
@pytest.mark.parametrize("why", WAITS)
def test_what_nobody_may_start_stays_as_it_is(shop: Workspace, why: str) -> None:
    job = made(shop, **{**QUEUED, **WAITS[why]})
    before = values_of(job)
    assert claim(job) is None
    assert values_of(job) == before


@pytest.mark.parametrize(
    ("of", "closed_for", "name", "is_claimed"),
    [
        ("shop", HOUR, "bank", False),
        (None, HOUR, "bank", False),
        ("another", HOUR, "bank", True),
        ("shop", -HOUR, "bank", True),
        (None, -HOUR, "bank", True),
        ("shop", HOUR, "post", True),
        (None, HOUR, "", True),  # a job with no gate stands behind none
    ],
)
@on_both
def test_a_closed_gate_keeps_its_own_jobs_back_and_no_others(
    shop: Workspace, *, of: str | None, closed_for: timedelta, name: str, is_claimed: bool
) -> None:
    another = Workspace.objects.create(slug="another", name="Another")
    whose = {"shop": shop, "another": another, None: None}[of]
    Gate.objects.create(workspace=whose, name=name, closed_until=Now() + closed_for)
    job = made(shop, **QUEUED, gate="bank" if name else "")
    assert (claim(job) is not None) == is_claimed


@on_both
@pytest.mark.parametrize(
    ("whom", "attempt", "is_claimed"),
    [("it", 5, True), ("it", 4, False), ("it", 6, False), ("another", 5, False)],
)
def test_a_closed_gate_lets_one_attempt_of_one_job_through(
    shop: Workspace, *, whom: str, attempt: int, is_claimed: bool
) -> None:
    job = made(shop, **QUEUED, gate="bank", attempt=4)
    probe = {"probe_id": job.pk if whom == "it" else uuid7(), "probe_attempt": attempt}
    Gate.objects.create(workspace=shop, name="bank", closed_until=Now() + HOUR, **probe)
    assert (claim(job) is not None) == is_claimed


@pytest.fixture
def _durable(transactional_db: None) -> Iterator[None]:
    """The setting that a server which keeps its promises has."""
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
    yield
    connection.close()


def shown() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW synchronous_commit")
        return str(cursor.fetchone()[0])


@pytest.mark.usefixtures("_durable")
def test_a_claim_commits_asynchronously_and_nothing_after_it(acme: Workspace) -> None:
    """A crash may forget a claim, and nothing else."""
    one, another = made(acme, "a", **QUEUED), made(acme, "b", **QUEUED)
    with transaction.atomic():
        assert claim(one)
        assert shown() == "off"
    assert claim(another)
    assert shown() == "on"
