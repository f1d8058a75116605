"""An operation from its draft to its end: what it does, what it leaves alone, and once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from jobs.drain import drain
from jobs.models import Job, OperationItem
from jobs.recovery.resolve import resolve
from jobs.recovery.retry import retry
from tests.integration.bulk_scene import (
    DEAD_ONES,
    KIND,
    WHY,
    codes,
    drafted,
    member,
    outcomes,
    rows,
    started,
    successors,
    turns,
)
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace

LATER = datetime(2100, 1, 1, tzinfo=UTC)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def test_it_retries_every_dead_letter_once_in_the_order_they_came(acme: Workspace) -> None:
    jobs = rows(acme, 5)
    ana = member(acme)
    operation = turns(started(drafted(acme, ana), ana))
    assert (operation.state, outcomes(operation)) == ("finished", {"done": 5})
    items = OperationItem.objects.filter(operation=operation).order_by("position")
    assert [item.object_id for item in items] == [str(job.pk) for job in jobs]
    made = [Job.objects.get(pk=item.result_id) for item in items]
    assert [job.retry_of_id for job in made] == [job.pk for job in jobs]
    assert {(job.mode, job.queue, job.request_id) for job in made} == {
        ("resume", "default", f"operation:{operation.pk}")
    }
    assert successors(acme) == 5


def test_each_item_is_audited_in_the_name_and_for_the_reason_of_who_started_it(
    acme: Workspace,
) -> None:
    rows(acme, 3)
    ana, ben = member(acme), member(acme, name="ben")
    operation = turns(started(drafted(acme, ana), ben))
    trail = AuditEvent.objects.filter(action="job.resume")
    assert trail.count() == 3
    assert set(trail.values_list("actor", "reason", "request_id")) == {
        (f"user:{ben.pk}", WHY, f"operation:{operation.pk}")
    }


@pytest.mark.parametrize(
    ("verb", "matching", "left"),
    [
        ("restart", DEAD_ONES, {("dead", False), ("succeeded", False)}),
        ("resolve", DEAD_ONES, {("dead", True)}),
        ("cancel", f"state=queued,kind={KIND}", {("cancelled", False)}),
    ],
)
def test_it_restarts_resolves_and_cancels(
    acme: Workspace, verb: str, matching: str, left: set[tuple[str, bool]]
) -> None:
    waiting: dict[str, Any] = {"state": "queued", "cause": "", "finished_at": None, "run_at": LATER}
    rows(acme, 3, **(waiting if verb == "cancel" else {}))
    ana = member(acme)
    operation = turns(started(drafted(acme, ana, verb=verb, matching=matching), ana))
    assert (operation.state, outcomes(operation)) == ("finished", {"done": 3})
    drain()
    jobs = Job.objects.filter(kind=KIND)
    assert {(job.state, job.resolved_at is not None) for job in jobs} == left


def test_what_dies_after_the_draft_is_not_in_it(acme: Workspace) -> None:
    rows(acme, 2)
    ana = member(acme)
    operation = drafted(acme, ana)
    rows(acme, 2, prefix="later")
    turns(started(operation, ana))
    assert outcomes(operation) == {"done": 2}
    assert set(Job.objects.filter(retry_of__isnull=False).values_list("key", flat=True)) == {
        "o-0000",
        "o-0001",
    }


def test_half_of_it_changes_between_the_draft_and_its_turn(acme: Workspace) -> None:
    jobs = rows(acme, 8)
    ana = member(acme)
    operation = drafted(acme, ana)
    assert outcomes(operation) == {"pending": 8}
    retry(jobs[0].pk, mode="resume", actor=SYSTEM, reason=WHY)
    retry(jobs[2].pk, mode="restart", actor=SYSTEM, reason=WHY)
    resolve(jobs[4].pk, actor=SYSTEM, reason=WHY)
    Job.objects.filter(pk=jobs[6].pk).update(cause="uncertain")
    operation = turns(started(operation, ana))
    assert (operation.state, outcomes(operation)) == ("finished", {"done": 4, "skipped": 4})
    assert codes(operation) == {
        "o-0000": "already_retried",
        "o-0002": "already_retried",
        "o-0004": "resolved",
        "o-0006": "uncertain",
    }
    assert successors(acme) == 4 + 2


def test_a_kind_that_refuses_one_of_them_has_that_one_skipped(acme: Workspace) -> None:
    rows(acme, 1)
    rows(acme, 1, prefix="refused", params={"hook": "refuse"})
    ana = member(acme)
    operation = turns(started(drafted(acme, ana), ana))
    assert (operation.state, outcomes(operation)) == ("finished", {"done": 1, "skipped": 1})
    item = OperationItem.objects.get(operation=operation, outcome="skipped")
    assert (item.code, item.result_id) == ("refunded", "")
    assert item.sentence == "Nothing was done: the order was refunded meanwhile."


def test_a_hook_that_breaks_fails_its_item_alone_and_leaves_nothing_of_it(
    acme: Workspace,
) -> None:
    broken = rows(acme, 1, prefix="broken", params={"hook": "key_error"})
    rows(acme, 2)
    ana = member(acme)
    operation = turns(started(drafted(acme, ana), ana))
    assert (operation.state, outcomes(operation)) == ("finished", {"done": 2, "failed": 1})
    item = OperationItem.objects.get(operation=operation, outcome="failed")
    assert (item.code, item.sentence) == ("error", "KeyError: 'missing'")
    assert not Job.objects.filter(retry_of=broken[0]).exists()
    assert AuditEvent.objects.filter(action="job.resume").count() == 2


def test_nothing_crosses_into_another_workspace(acme: Workspace, globex: Workspace) -> None:
    theirs = rows(globex, 3, prefix="theirs")
    ours = rows(acme, 1)
    ana = member(acme)
    by_filter = turns(started(drafted(acme, ana), ana))
    assert outcomes(by_filter) == {"done": 1}
    ids = [str(job.pk) for job in (*theirs, *ours)] + ["no-id", str(UUID(int=7))]
    by_ids = drafted(acme, ana, matching="", ids=ids)
    assert outcomes(by_ids) == {"skipped": 6}
    assert set(codes(by_ids).values()) == {"job_not_found", "already_retried"}
    assert sum(code == "job_not_found" for code in codes(by_ids).values()) == 5
    assert successors(globex) == 0


def test_an_item_that_was_moved_to_a_job_elsewhere_is_still_not_touched(
    acme: Workspace, globex: Workspace
) -> None:
    rows(acme, 1)
    ana = member(acme)
    member(globex, name="ben")
    operation = drafted(acme, ana)
    theirs = rows(globex, 1)
    OperationItem.objects.filter(operation=operation).update(object_id=str(theirs[0].pk))
    turns(started(operation, ana))
    assert codes(operation) == {"o-0000": "job_not_found"}
    assert successors(globex) == 0
