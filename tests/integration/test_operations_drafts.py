"""What a draft freezes, whom it leaves out and why, and what it refuses to be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs.enqueue import enqueue
from jobs.errors import (
    NothingEligible,
    OperationConflict,
    OperationInvalid,
    OperationNotFound,
)
from jobs.models import Attempt, Job, Operation
from jobs.recovery import draft as drafting
from jobs.recovery.draft import Care, draft
from jobs.recovery.operation import pause, start
from jobs.recovery.retry import retry
from tests.drills import bulk
from tests.integration.bulk_scene import (
    DEAD_ONES,
    KIND,
    QUICK,
    WHY,
    actor,
    codes,
    drafted,
    engine_of,
    member,
    outcomes,
    rows,
    started,
)
from tests.integration.console_scene import dead, uncertain
from workspaces.actors import SYSTEM
from workspaces.audit import ReasonRequired
from workspaces.errors import NoSuchWorkspace
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import NotAllowed, Role

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_draft_counts_who_is_in_it_and_why_others_are_not(
    acme: Workspace, tmp_path: Path
) -> None:
    retried = dead(acme, tmp_path, "retried")
    retry(retried.pk, mode="resume", actor=SYSTEM, reason=WHY)
    dead(acme, tmp_path, "fine")
    uncertain(acme, tmp_path, "charged")
    rows(acme, 1, "resolved", resolved_at=Now(), resolution="refunded by hand")
    rows(acme, 1, "risky", kind=bulk.risky.name)
    rows(acme, 1, "renewed", kind=bulk.renewed.name)
    rows(acme, 1, "unknown", kind="gone.kind")
    rows(acme, 1, "succeeded", state="succeeded", cause="")
    firsts = Job.objects.filter(retry_of__isnull=True).values_list("pk", flat=True)
    lead = member(acme, Role.LEAD)
    operation = drafted(acme, lead, matching="", ids=[str(pk) for pk in firsts])
    assert codes(operation) == {
        "retried": "already_retried",
        "charged": "uncertain",
        "resolved-0000": "resolved",
        "risky-0000": "risky",
        "renewed-0000": "version_changed",
        "unknown-0000": "unknown_kind",
        "succeeded-0000": "not_retryable",
    }
    assert outcomes(operation) == {"pending": 1, "skipped": 7}
    assert (operation.eligible, operation.selected, operation.selection) == (1, 8, "8 ids")


def test_a_filter_takes_dead_letters_of_a_cause_a_kind_and_a_fingerprint(
    acme: Workspace,
) -> None:
    one, two, three = rows(acme, 3)
    rows(acme, 1, "lost", cause="lost")
    rows(acme, 1, "other", kind=bulk.renewed.name)
    rows(acme, 1, "resolved", resolved_at=Now(), resolution="done by hand")
    rows(acme, 1, "waits", state="queued", cause="", finished_at=None)
    attempted(one, "timeout", "refused")
    attempted(two, "refused", "timeout")
    attempted(three, "timeout")
    ana = member(acme)

    def chosen(matching: str) -> set[str]:
        operation = drafted(acme, ana, matching=matching)
        ids = operation.items.values_list("object_id", flat=True)
        return set(Job.objects.filter(pk__in=list(ids)).values_list("key", flat=True))

    assert chosen("state=dead") == {"o-0000", "o-0001", "o-0002", "lost-0000", "other-0000"}
    assert chosen(f" state = dead , kind={KIND} ") == {"o-0000", "o-0001", "o-0002", "lost-0000"}
    assert chosen("state=dead,cause=lost") == {"lost-0000"}
    assert chosen("state=dead,fingerprint=timeout") == {"o-0001", "o-0002"}
    assert chosen("state=queued") == {"waits-0000"}


def attempted(job: Job, *fingerprints: str) -> None:
    for number, fingerprint in enumerate(fingerprints, start=1):
        Attempt.objects.create(
            job=job,
            number=number,
            outcome="failed",
            fingerprint=fingerprint,
            worker="w",
            started_at=Now(),
            kill_at=Now(),
            ended_at=Now(),
        )


def test_a_draft_says_how_often_it_would_call_outside(acme: Workspace, tmp_path: Path) -> None:
    from tests.drills.kinds import keyed, once
    from tests.integration.console_scene import ended

    ledger = {"ledger": str(tmp_path / "l")}
    for number in range(2):
        ended(keyed.s(**ledger, fault="terminal"), acme, f"keyed-{number}")
    ended(once.s(**ledger, fault="surely_not"), acme, "once")
    ana = member(acme)
    operation = drafted(acme, ana, matching="state=dead")
    assert operation.outward == {"keyed": 2, "once": 1}
    assert Job.objects.filter(retry_of__isnull=False).count() == 0


def test_the_same_id_twice_is_one_item(acme: Workspace) -> None:
    (job,) = rows(acme, 1)
    ana = member(acme)
    ids = [str(job.pk), job.pk.hex, str(job.pk).upper()]
    assert drafted(acme, ana, matching="", ids=ids).selected == 1


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"verb": "explode"}, r"no operation can 'explode'. It can: cancel, recover, res"),
        ({"matching": ""}, "give either ids or a filter"),
        ({"ids": ["x"]}, "give either ids or a filter"),
        ({"matching": "kind=a.b"}, "a filter of jobs has a state"),
        ({"matching": "state=succeeded"}, "a filter of jobs has a state"),
        ({"matching": "state=dead,colour=red"}, "a filter of jobs has a state"),
        ({"matching": "state=dead,state=queued"}, "'state=queued' is no criterion"),
        ({"matching": "dead"}, "'dead' is no criterion"),
        ({"matching": " , "}, "the filter is empty"),
        ({"care": replace(QUICK, canary=-1)}, "the canary has from 0"),
        ({"care": replace(QUICK, rate_per_minute=0)}, "a rate is from 1 to 6000"),
        ({"care": replace(QUICK, rate_per_minute=6001)}, "a rate is from 1 to 6000"),
        ({"care": replace(QUICK, stop_after=0)}, "the stop rule"),
        ({"care": replace(QUICK, stop_ratio=0.0)}, "the stop rule"),
        ({"care": replace(QUICK, stop_ratio=1.1)}, "the stop rule"),
    ],
)
def test_what_no_operation_can_be_is_refused_in_words(
    acme: Workspace, told: dict[str, Any], sentence: str
) -> None:
    rows(acme, 1)
    with pytest.raises(OperationInvalid, match=sentence):
        drafted(acme, member(acme), **told)
    assert not Operation.objects.exists()


def test_more_than_the_engine_has_steps_for_is_refused(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert drafting.ITEMS_LIMIT == 9_999
    monkeypatch.setattr(drafting, "ITEMS_LIMIT", 3)
    jobs = rows(acme, 4)
    ana = member(acme)
    for told in ({}, {"matching": "", "ids": [str(job.pk) for job in jobs]}):
        with pytest.raises(OperationInvalid, match="at most 3 items"):
            drafted(acme, ana, **told)
    Job.objects.filter(pk=jobs[0].pk).update(resolved_at=Now())
    assert drafted(acme, ana).selected == 3


def test_the_verb_brings_the_rate_unless_another_is_given(acme: Workspace) -> None:
    rows(acme, 1)
    ana = member(acme)
    rates = {
        verb: drafted(acme, ana, verb=verb, care=Care()).rate_per_minute
        for verb in ("resume", "restart", "resolve", "cancel")
    }
    assert rates == {"resume": 60, "restart": 60, "resolve": None, "cancel": None}
    assert drafted(acme, ana, care=Care(rate_per_minute=5)).rate_per_minute == 5


def test_a_viewer_drafts_nothing_and_a_stranger_sees_no_workspace(acme: Workspace) -> None:
    rows(acme, 1)
    with pytest.raises(NotAllowed) as refused:
        drafted(acme, member(acme, Role.VIEWER))
    assert refused.value.right == "operations.run"
    elsewhere = Workspace.objects.create(slug="globex", name="Globex")
    with pytest.raises(NoSuchWorkspace):
        drafted(acme, member(elsewhere, Role.ADMIN, "ben"))
    assert not Operation.objects.exists()


def test_fifty_are_for_an_operator_and_more_for_a_lead(acme: Workspace) -> None:
    rows(acme, 51)
    ana, lead = member(acme), member(acme, Role.LEAD, "lea")
    large = drafted(acme, ana)
    with pytest.raises(NotAllowed) as refused:
        started(large, ana)
    assert refused.value.right == "operations.large"
    assert started(large, lead).state == "running"
    Job.objects.filter(key="o-0050").update(resolved_at=Now())
    assert started(drafted(acme, ana), ana).state == "running"


def test_who_may_not_retry_a_job_by_itself_does_not_retry_it_in_bulk(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(acme, 1)
    monkeypatch.setattr(bulk.bulk.spec, "permission", "locks.force")
    operation = drafted(acme, member(acme))
    assert codes(operation) == {"o-0000": "not_allowed"}


def test_an_operation_with_nothing_to_do_is_not_started(acme: Workspace) -> None:
    rows(acme, 2, resolved_at=Now(), resolution="by hand")
    ids = [str(pk) for pk in Job.objects.values_list("pk", flat=True)]
    ana = member(acme)
    operation = drafted(acme, ana, matching="", ids=ids)
    with pytest.raises(NothingEligible, match="none of the 2 selected"):
        started(operation, ana)


def test_a_start_is_done_once_and_asks_for_a_reason(acme: Workspace) -> None:
    from uuid import uuid4

    rows(acme, 1)
    ana = member(acme)
    operation, form = drafted(acme, ana), uuid4()
    with pytest.raises(ReasonRequired):
        start(operation.pk, actor=actor(ana), reason=" ")
    first = start(operation.pk, actor=actor(ana), reason=WHY, operation_id=form)
    again = start(operation.pk, actor=actor(ana), reason=WHY, operation_id=form)
    assert first.job_id == again.job_id is not None
    with pytest.raises(OperationConflict, match="the operation is running"):
        start(operation.pk, actor=actor(ana), reason=WHY)
    refused, event = AuditEvent.objects.filter(action="operation.start")
    assert (refused.object_id, refused.result) == (str(operation.pk), "operation_state")
    assert (event.object_id, event.reason, event.operation_id) == (str(operation.pk), WHY, form)
    assert (event.before, event.after) == (
        {"state": "draft"},
        {"state": "running", "verb": "resume", "size": 1},
    )
    engine = engine_of(first)
    assert (engine.kind, engine.queue, engine.key) == (
        "jobs.operation",
        "operations",
        f"operation:{operation.pk}",
    )


def test_an_operation_of_another_workspace_does_not_exist(acme: Workspace) -> None:
    rows(acme, 1)
    operation = drafted(acme, member(acme))
    elsewhere = Workspace.objects.create(slug="globex", name="Globex")
    stranger = member(elsewhere, Role.ADMIN, "ben")
    for pk in (operation.pk, "nonsense", "01a227d9-b4b3-745f-80e6-05a6ca6fd494"):
        with pytest.raises(OperationNotFound, match="no operation"):
            pause(pk, actor=actor(stranger), reason=WHY)


def test_an_operation_takes_no_engine_of_another(acme: Workspace) -> None:
    rows(acme, 1)
    ana = member(acme)
    started(drafted(acme, ana), ana)
    operation = drafted(acme, ana, verb="cancel", matching="state=queued,kind=jobs.operation")
    assert set(codes(operation).values()) == {"operation"}


def test_nothing_is_started_in_a_closed_workspace(acme: Workspace) -> None:
    from workspaces.closing import close
    from workspaces.errors import WorkspaceClosed

    rows(acme, 1)
    ana = member(acme)
    operation = drafted(acme, ana)
    close(acme.pk, actor=SYSTEM, reason=WHY)
    with pytest.raises(WorkspaceClosed):
        started(operation, ana)
    operation.refresh_from_db()
    assert operation.state == "draft"


@pytest.mark.parametrize("count", [3, 300])
def test_a_draft_takes_a_constant_number_of_queries_for_each_two_hundred(
    acme: Workspace, count: int, django_assert_max_num_queries: Any
) -> None:
    rows(acme, count)
    somebody = actor(member(acme))
    chunks = -(-count // 200)
    with django_assert_max_num_queries(8 + 5 * chunks):
        draft(acme, "resume", actor=somebody, matching=DEAD_ONES)


def test_a_job_that_waits_with_an_open_step_is_not_cancelled_in_bulk(
    acme: Workspace, tmp_path: Path
) -> None:
    from jobs.models import Step

    job = enqueue(KIND, workspace=acme, key="open", params={}, countdown=3600)
    Step.objects.create(
        job=job, name="pay", effect="once", state="started", attempt=1, opens_at=Now()
    )
    operation = drafted(acme, member(acme), verb="cancel", matching="state=queued")
    assert codes(operation) == {"open": "uncertain"}
