"""What a retry is: one successor, what it keeps, runs and asks, and what is on record of it."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.db import IntegrityError, transaction
from django.db.models import F

from jobs import runner
from jobs.errors import AlreadyRetried
from jobs.kinds import Intended, Run, Terminal, job_kind, step
from jobs.models import Event, Job
from jobs.recovery.cancel import cancel
from jobs.recovery.preflight import preflight
from jobs.recovery.reconcile import reconcile
from jobs.recovery.resolve import resolve
from jobs.recovery.retry import retry
from jobs.sweep import sweep
from jobs.testing import at_step, attempt, crash_at, drain
from tests.drills.kinds import (
    keyed,
    noop,
    not_happened,
    once,
    pages,
    reconciled,
    repeatable,
    secretive,
)
from tests.drills.ledger import effects
from tests.integration.kernel.acting import (
    ended,
    resumed,
    states,
    told,
    waiting,
)
from tests.integration.kernel.sessions import at_once
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

WHY = "the cause is mended"


def refuse(_: object) -> None:
    raise Terminal("refused", happened=False)


def died_at(name: str, intended: Intended, acme: Workspace) -> Job:
    """A job whose named step refused for good."""
    job = waiting(intended, acme)
    with at_step(name, "started", refuse):
        drain()
    job.refresh_from_db()
    assert job.state == "dead"
    return job


def test_a_successor_is_linked_and_differs_in_nothing_else(acme: Workspace, ledger: str) -> None:
    job = died_at("second", repeatable.s(ledger=ledger), acme)
    Job.objects.filter(pk=job.pk).update(request_id="req-1", traceparent="00-trace")
    with transaction.atomic():  # nothing runs it before it was looked at
        successor = retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY, request_id="req-2")
    assert (successor.retry_of_id, successor.root_id, successor.epoch) == (job.pk, job.pk, 0)
    assert (successor.mode, successor.created, successor.actor) == ("resume", True, "system")
    same = ("workspace_id", "kind", "key", "params", "params_digest", "version", "queue")
    assert all(getattr(successor, name) == getattr(job, name) for name in same)
    assert (successor.request_id, successor.traceparent) == ("req-2", "00-trace")
    assert successor.deadline_at is not None
    assert successor.deadline_at - successor.created_at == timedelta(hours=24)
    assert (successor.failures, successor.losses, successor.attempt) == (0, 0, 0)


def test_a_resume_keeps_what_is_finished_and_says_from_where(acme: Workspace, ledger: str) -> None:
    job = died_at("second", repeatable.s(ledger=ledger), acme)
    successor = resumed(job)
    kept = successor.steps.get(name="first")
    assert (successor.state, effects(ledger)) == ("succeeded", {"first": 1, "second": 1})
    assert (kept.state, kept.carried_from, kept.output) == ("done", job.pk, {"ok": True})
    assert kept.done_at == job.steps.get(name="first").done_at
    assert successor.steps.get(name="second").carried_from is None


def test_a_chain_remembers_the_job_that_did_it(acme: Workspace, ledger: str) -> None:
    job = died_at("second", repeatable.s(ledger=ledger), acme)
    with at_step("second", "started", refuse):
        again = resumed(job)
    third = resumed(again)
    assert (again.state, third.state) == ("dead", "succeeded")
    assert (third.root_id, third.retry_of_id) == (job.pk, again.pk)
    assert third.steps.get(name="first").carried_from == job.pk
    assert effects(ledger) == {"first": 1, "second": 1}


def test_what_holds_for_one_job_only_runs_again(acme: Workspace, ledger: str) -> None:
    card = {"number": "4111", "cents": 1}
    job = died_at("first", secretive.s(ledger=ledger, card=card), acme)
    words = {s.name: s.word.value for s in preflight(job, "resume", SYSTEM).steps}
    successor = resumed(job)
    assert words == {"login": "runs again", "first": "runs"}
    assert successor.state == "succeeded"
    assert effects(ledger) == {"login": 2, "first": 1}


def test_a_later_attempt_of_the_same_job_keeps_it(acme: Workspace, ledger: str) -> None:
    job = waiting(secretive.s(ledger=ledger, card={"number": "4111"}), acme)
    with crash_at("first", "before"):
        drain()
    drain()
    job.refresh_from_db()
    assert (job.state, effects(ledger)) == ("succeeded", {"login": 1, "first": 1})


def test_the_pages_of_a_loop_are_kept_one_by_one(acme: Workspace, ledger: str) -> None:
    job = died_at("page:2", pages.s(ledger=ledger, count=4), acme)
    successor = resumed(job)
    assert (successor.state, successor.result) == ("succeeded", 4)
    assert effects(ledger) == {"page0": 1, "page1": 1, "page2": 1, "page3": 1}


def test_a_restart_carries_nothing(acme: Workspace, ledger: str) -> None:
    job = died_at("second", repeatable.s(ledger=ledger), acme)
    successor = resumed(job, "restart")
    assert (successor.state, successor.mode, successor.epoch) == ("succeeded", "restart", 1)
    assert not successor.steps.filter(carried_from__isnull=False).exists()
    assert effects(ledger) == {"first": 2, "second": 1}


def test_a_resume_after_a_restart_stays_in_its_epoch(acme: Workspace, ledger: str) -> None:
    job = ended(keyed.s(ledger=ledger, fault="http_502"), acme)
    again = resumed(job, "restart")
    third = resumed(again)
    assert (again.epoch, third.epoch, third.root_id) == (1, 1, job.pk)
    keys = {line for line in effects(ledger) if line.startswith("key:")}
    assert len(keys) == 2


def test_a_cancelled_job_is_retried_with_what_it_had_done(acme: Workspace, ledger: str) -> None:
    job = waiting(repeatable.s(ledger=ledger), acme)
    with at_step("first", "during", lambda _: cancel(job.pk, actor=SYSTEM, reason="stop")):
        attempt(job)
    assert (job.state, states(job)) == ("cancelled", {"first": "done"})
    assert resumed(job).state == "succeeded"
    assert effects(ledger) == {"first": 1, "second": 1}


def test_a_succeeded_retry_is_what_its_key_answers(acme: Workspace, ledger: str) -> None:
    intended = repeatable.s(ledger=ledger)
    job = died_at("second", intended, acme)
    successor = resumed(job)
    again = waiting(intended, acme)
    assert (again.pk, again.created, again.state) == (successor.pk, False, "succeeded")


# --- after somebody has looked -------------------------------------------------------------------


def test_what_was_seen_to_have_happened_is_kept_with_the_output_given(
    acme: Workspace, ledger: str
) -> None:
    job = ended(once.s(ledger=ledger, fault="reset"), acme)
    output = {"charge": "ch_1"}
    reconcile(job.pk, step="charge", outcome="happened", output=output, actor=SYSTEM, reason="seen")
    successor = resumed(job)
    kept = successor.steps.get(name="charge")
    assert (kept.state, kept.output, kept.carried_from) == ("done", output, job.pk)
    assert (successor.state, effects(ledger)) == ("succeeded", {"charge": 1, "second": 1})


def test_what_was_seen_not_to_have_happened_is_done(acme: Workspace, ledger: str) -> None:
    intended = once.s(ledger=ledger, fault="reset", once_file=f"{ledger}.once")
    job = ended(intended, acme)
    reconcile(job.pk, step="charge", outcome="did_not_happen", actor=SYSTEM, reason="looked")
    successor = resumed(job)
    assert (successor.state, effects(ledger)["charge"]) == ("succeeded", 2)


def test_a_restart_after_somebody_has_looked_is_a_new_intent(acme: Workspace, ledger: str) -> None:
    intended = once.s(ledger=ledger, fault="reset", once_file=f"{ledger}.once")
    job = ended(intended, acme)
    reconcile(job.pk, step="charge", outcome="happened", actor=SYSTEM, reason="seen")
    successor = resumed(job, "restart")
    assert (successor.state, effects(ledger)["charge"]) == ("succeeded", 2)


def test_an_observation_changes_the_job_in_nothing_else(acme: Workspace, ledger: str) -> None:
    job = ended(once.s(ledger=ledger, fault="reset"), acme)
    before = Job.objects.filter(pk=job.pk).values().get()
    attempts = list(job.attempts.values())
    reconcile(job.pk, step="charge", outcome="did_not_happen", actor=SYSTEM, reason="looked")
    assert Job.objects.filter(pk=job.pk).values().get() == before
    assert list(job.attempts.values()) == attempts


def test_a_step_that_can_be_asked_about_needs_no_operator(acme: Workspace, ledger: str) -> None:
    job = ended(reconciled.s(ledger=ledger, fault="key_error"), acme)
    plan = preflight(job, "resume", SYSTEM)
    assert plan.refusal is None
    assert [step.name for step in plan.open_steps] == ["charge_found"]
    assert resumed(job).state == "succeeded"


def test_the_writer_of_a_carried_intent_is_asked_for_in_the_job_it_came_from(
    acme: Workspace, ledger: str
) -> None:
    """Both jobs have an attempt 1: that of the first wrote the intent, and may still be alive."""
    job = waiting(not_happened.s(ledger=ledger), acme)
    with crash_at("charge_lost", "started"):
        drain()
    job.attempts.update(worker="elsewhere/b/1/1/1", kill_at=F("ended_at") + timedelta(hours=1))
    Job.objects.filter(pk=job.pk).update(deadline_at=F("created_at"))
    sweep()
    job.refresh_from_db()
    assert (job.state, job.cause) == ("dead", "uncertain")
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
    attempt(successor)
    early = (successor.state, successor.wait_reason, effects(ledger)["charge_lost"])
    job.attempts.update(kill_at=F("ended_at"))
    drain()
    successor.refresh_from_db()
    assert early == ("queued", "deferred", 0)
    assert (successor.state, effects(ledger)["charge_lost"]) == ("succeeded", 1)


# --- on record -----------------------------------------------------------------------------------


def test_every_verb_leaves_one_event_and_one_audit_row(acme: Workspace, ledger: str) -> None:
    job = ended(once.s(ledger=ledger, fault="reset"), acme)
    common = {"actor": SYSTEM, "request_id": "req-7"}
    reconcile(job.pk, step="charge", outcome="happened", output={}, reason="r1", **common)  # type: ignore[arg-type]
    resolve(job.pk, reason="r2", **common)  # type: ignore[arg-type]
    successor = retry(job.pk, mode="resume", reason="r3", **common)  # type: ignore[arg-type]
    other = waiting(noop.s(), acme, "b")
    cancel(other.pk, reason="r4", **common)  # type: ignore[arg-type]

    rows = AuditEvent.objects.order_by("pk").values_list(
        "action", "object_id", "actor", "reason", "request_id", "workspace_id"
    )
    assert list(rows) == [
        (f"job.{verb}", str(each.pk), "system", reason, "req-7", acme.pk)
        for verb, each, reason in (
            ("reconcile", job, "r1"),
            ("resolve", job, "r2"),
            ("resume", job, "r3"),
            ("cancel", other, "r4"),
        )
    ]
    assert told(job) == ["job.uncertain", "job.reconciled", "job.resolved", "job.retried"]
    assert told(other) == ["job.cancelled"]
    retried = Event.objects.get(type="job.retried").data
    assert (retried["successor"], retried["mode"], retried["kept"]) == (
        str(successor.pk),
        "resume",
        ["charge"],
    )
    kept = AuditEvent.objects.get(action="job.resume").after
    assert kept == {"successor": str(successor.pk), "mode": "resume", "kept": ["charge"]}


def test_what_it_cost_is_shown_where_something_of_it_runs_again(acme: Workspace) -> None:
    @step("think")
    def think() -> None: ...

    @job_kind("scene.spends", steps=(think,))
    def spends(run: Run) -> None:
        run.record_cost(1.5, "EUR")
        run(think)
        raise Terminal("no")

    job = ended(spends.s(), acme)
    assert preflight(job, "restart", SYSTEM).cost == (
        {"attempt": 1, "amount": 1.5, "currency": "EUR"},
    )
    assert preflight(job, "resume", SYSTEM).cost == ()


def test_an_owner_follows_the_newest_job(acme: Workspace, ledger: str) -> None:
    owner: list[object] = []

    @job_kind("scene.followed")
    def followed(run: Run) -> None:
        raise Terminal("no")

    @followed.after
    def follow(job: Job, verb: str, successor: Job | None) -> None:
        owner.append((verb, None if successor is None else successor.pk))

    job = ended(followed.s(), acme)
    successor = retry(job.pk, mode="restart", actor=SYSTEM, reason=WHY)
    assert owner[:2] == [("dead", None), ("restart", successor.pk)]


# --- at the same moment --------------------------------------------------------------------------


def test_the_database_holds_that_a_job_has_one_successor(acme: Workspace, ledger: str) -> None:
    job = died_at("second", repeatable.s(ledger=ledger), acme)
    first = retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
    with pytest.raises(IntegrityError):
        Job.objects.create(
            workspace=acme, kind="x", key="x", params={}, queue="default", actor="system",
            retry_of=job, root_id=job.pk,
        )  # fmt: skip
    assert Job.objects.filter(retry_of=job).get() == first


def test_of_two_operators_with_different_wishes_one_is_told_who_was_first(
    acme: Workspace, ledger: str
) -> None:
    job = died_at("second", repeatable.s(ledger=ledger), acme)

    def wish(mode: str) -> object:
        return retry(job.pk, mode=mode, actor=SYSTEM, reason=WHY)

    answers = at_once(*[lambda mode=mode: wish(mode) for mode in ("resume", "restart") * 4])
    successor = Job.objects.get(retry_of=job)
    same = [each for each in answers if isinstance(each, Job)]
    assert {each.pk for each in same} == {successor.pk}
    assert len(same) == 4
    assert all(isinstance(each, (Job, AlreadyRetried)) for each in answers)


def test_a_cancel_and_a_claim_cannot_pass_each_other(acme: Workspace, ledger: str) -> None:
    jobs = [waiting(repeatable.s(ledger=ledger), acme, str(n)) for n in range(6)]
    Job.objects.update(run_at=F("created_at"))
    for job in jobs:
        at_once(
            partial(runner.execute, job.kind, job.pk),
            partial(cancel, job.pk, actor=SYSTEM, reason="stop"),
        )
    for job in jobs:
        job.refresh_from_db()
        ran = job.attempts.count()
        assert job.state in ("cancelled", "succeeded")
        assert (job.state == "cancelled") or ran == 1
