"""What an operator is refused: with a code and a sentence that helps, and nothing written."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now

from jobs import registry
from jobs.errors import JobsError
from jobs.kinds import Job as JobRow
from jobs.kinds import Refused, Run, job_kind
from jobs.models import Job
from jobs.recovery.cancel import cancel
from jobs.recovery.preflight import preflight
from jobs.recovery.reconcile import reconcile
from jobs.recovery.resolve import resolve
from jobs.recovery.retry import retry
from tests.drills.kinds import noop, once, repeatable
from tests.integration.kernel.acting import claimed_elsewhere, counts, ended, waiting
from tests.integration.kernel.sessions import held_elsewhere
from tests.integration.meanwhile import meanwhile
from workspaces import audit, closing
from workspaces.actors import SYSTEM, Actor, as_actor
from workspaces.errors import FiredoorError
from workspaces.models import AuditEvent, Membership, Workspace
from workspaces.permissions import Role

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "somebody looked into it"
DEEDS: dict[str, Callable[..., Job]] = {
    "resume": lambda job_id, **more: retry(job_id, mode="resume", **more),
    "restart": lambda job_id, **more: retry(job_id, mode="restart", **more),
    "cancel": cancel,
    "resolve": resolve,
    "reconcile": lambda job_id, **more: reconcile(
        job_id, step="charge", outcome="did_not_happen", **more
    ),
}
EVERY = pytest.mark.parametrize("verb", sorted(DEEDS))


def refused(verb: str, job_id: object, **more: Any) -> FiredoorError:
    """The refusal, after which every table is as it was, but for its own line in the trail."""
    before, told = counts(), {"actor": SYSTEM, "reason": WHY, **more}
    with pytest.raises(FiredoorError) as raised:
        DEEDS[verb](job_id, **told)
    on_record = raised.value.status in audit.REFUSALS
    assert counts() == {**before, "AuditEvent": before["AuditEvent"] + on_record}
    if on_record:
        event = AuditEvent.objects.first()
        assert event is not None
        action = {"it": "reconcile"}.get(verb, verb)
        assert (event.action, event.object_id) == (f"job.{action}", str(job_id))
        assert (event.actor, event.reason) == (as_actor(told["actor"]).id, told["reason"])
        assert (event.result, event.operation_id) == (raised.value.code, None)
    assert raised.value.sentence.startswith("Nothing was ")
    return raised.value


def dead(acme: Workspace, ledger: str, key: str = "a") -> Job:
    return ended(repeatable.s(ledger=ledger, fault="terminal"), acme, key)


def uncertain(acme: Workspace, ledger: str, key: str = "a") -> Job:
    return ended(once.s(ledger=ledger, fault="reset"), acme, key)


def member(workspace: Workspace | None, role: Role) -> User:
    user = User.objects.create_user(f"{role}-{uuid.uuid4().hex[:6]}")
    Membership.objects.create(user=user, workspace=workspace, role=role)
    return user


# --- who -----------------------------------------------------------------------------------------


@pytest.mark.sqlite
@EVERY
@pytest.mark.parametrize("given", [uuid.uuid4(), "not an id", "", "0" * 5000, None, 7])
def test_what_is_no_job_is_not_found(acme: Workspace, verb: str, given: object) -> None:
    error = refused(verb, given)
    assert (error.code, error.status) == ("job_not_found", 404)
    assert len(error.sentence) < 200


@pytest.mark.sqlite
@EVERY
def test_a_job_of_another_workspace_is_not_found_either(
    acme: Workspace, ledger: str, verb: str
) -> None:
    job = uncertain(acme, ledger)
    stranger = member(Workspace.objects.create(slug="other", name="Other"), Role.ADMIN)
    theirs = refused(verb, job.pk, actor=stranger)
    nobodys = refused(verb, uuid.uuid4(), actor=stranger)
    assert theirs.code == "job_not_found"
    assert str(theirs).replace(str(job.pk), "") == str(nobodys).replace(
        str(nobodys).split("'")[1], ""
    )


@pytest.mark.sqlite
@EVERY
def test_a_viewer_may_look_and_no_more(acme: Workspace, ledger: str, verb: str) -> None:
    job, viewer = uncertain(acme, ledger), member(acme, Role.VIEWER)
    error = refused(verb, job.pk, actor=viewer)
    assert (error.code, error.status) == ("not_allowed", 403)
    assert "'jobs.operate'" in error.sentence
    (check,) = [c for c in preflight(job, verb, viewer).checks if c.code == "not_allowed"]
    assert check.level == "block"


@pytest.mark.sqlite
@EVERY
def test_what_is_risky_needs_a_lead(acme: Workspace, verb: str) -> None:
    @job_kind("scene.risky", risk=lambda job: 3 if job.key == "destroy" else 1)
    def risky(run: Run) -> None: ...

    grave, harmless = waiting(risky.s(), acme, "destroy"), waiting(risky.s(), acme, "look")
    operator = member(acme, Role.OPERATOR)
    error = refused(verb, grave.pk, actor=operator)
    assert (error.code, "'jobs.operate_risky'" in str(error)) == ("not_allowed", True)
    for who, job in ((operator, harmless), (member(acme, Role.LEAD), grave)):
        plan = preflight(job, verb, who)
        assert "not_allowed" not in {check.code for check in plan.checks}


@pytest.mark.sqlite
@EVERY
def test_a_kind_that_nobody_knows_is_as_risky_as_can_be(
    acme: Workspace, ledger: str, verb: str
) -> None:
    job = dead(acme, ledger)
    Job.objects.filter(pk=job.pk).update(kind="drills.of_tomorrow")
    assert refused(verb, job.pk, actor=member(acme, Role.OPERATOR)).code == "not_allowed"


@pytest.mark.sqlite
def test_an_actor_without_any_grant_finds_nothing(acme: Workspace, ledger: str) -> None:
    job = dead(acme, ledger)
    assert refused("resume", job.pk, actor=Actor("user:9", "Nobody")).code == "job_not_found"
    inactive = member(acme, Role.ADMIN)
    inactive.is_active = False
    assert refused("resume", job.pk, actor=inactive).code == "job_not_found"


@pytest.mark.sqlite
def test_a_platform_operator_sees_every_workspace(acme: Workspace, ledger: str) -> None:
    job = dead(acme, ledger)
    somebody = member(None, Role.OPERATOR)
    assert retry(job.pk, mode="resume", actor=somebody, reason=WHY).actor == f"user:{somebody.pk}"


# --- why -----------------------------------------------------------------------------------------


@pytest.mark.sqlite
@EVERY
@pytest.mark.parametrize("reason", ["", " \n\t", "\x00", "\u200b"], ids=ascii)
def test_a_deed_needs_a_reason(acme: Workspace, ledger: str, verb: str, reason: str) -> None:
    assert refused(verb, uncertain(acme, ledger).pk, reason=reason).code == "reason_required"


@EVERY
def test_a_reason_has_a_bound(acme: Workspace, ledger: str, verb: str) -> None:
    job = uncertain(acme, ledger)
    assert refused(verb, job.pk, reason="x" * 2001).code == "reason_too_long"


# --- what ----------------------------------------------------------------------------------------


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("state", "verb", "code"),
    [
        ("queued", "resume", "not_retryable"),
        ("queued", "restart", "not_retryable"),
        ("queued", "resolve", "not_resolvable"),
        ("queued", "reconcile", "not_reconcilable"),
        ("running", "resume", "not_retryable"),
        ("running", "restart", "not_retryable"),
        ("running", "resolve", "not_resolvable"),
        ("running", "reconcile", "not_reconcilable"),
        ("succeeded", "resume", "not_retryable"),
        ("succeeded", "restart", "not_retryable"),
        ("succeeded", "cancel", "not_cancellable"),
        ("succeeded", "resolve", "not_resolvable"),
        ("succeeded", "reconcile", "not_reconcilable"),
        ("dead", "cancel", "not_cancellable"),
        ("dead", "reconcile", "not_reconcilable"),
        ("cancelled", "cancel", "not_cancellable"),
        ("cancelled", "resolve", "not_resolvable"),
        ("cancelled", "reconcile", "not_reconcilable"),
    ],
)
def test_a_verb_that_does_not_fit_the_state_is_refused(
    acme: Workspace, ledger: str, state: str, verb: str, code: str
) -> None:
    job = waiting(noop.s(), acme)
    if state == "running":
        claimed_elsewhere(job)
    elif state != "queued":
        cause = "terminal" if state == "dead" else ""
        Job.objects.filter(pk=job.pk).update(state=state, cause=cause, finished_at=Now())
    error = refused(verb, job.pk)
    assert (error.code, error.status) == (code, 409)
    assert isinstance(error, JobsError)


@pytest.mark.sqlite
def test_what_is_open_must_be_reconciled_first_and_the_command_is_named(
    acme: Workspace, ledger: str
) -> None:
    job = uncertain(acme, ledger)
    for verb in ("resume", "restart"):
        error = refused(verb, job.pk)
        assert error.code == "reconcile_required"
        assert f"manage.py job reconcile {job.pk} --step charge --outcome" in error.sentence


@pytest.mark.sqlite
@pytest.mark.parametrize("step", ["second", "unknown", ""])
def test_only_an_open_step_is_reconciled(acme: Workspace, ledger: str, step: str) -> None:
    job = uncertain(acme, ledger)
    DEEDS["it"] = lambda job_id, **more: reconcile(job_id, step=step, outcome="happened", **more)
    try:
        assert refused("it", job.pk).code == "not_reconcilable"
    finally:
        del DEEDS["it"]


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "known",
    [
        {"effect": "keyed", "opens_at": Now() + timedelta(hours=1)},
        {"late_at": Now(), "late_output": {"id": "c-1"}},
    ],
    ids=["its provider still knows the key", "its own worker told later"],
)
def test_a_started_step_that_is_not_open_is_not_reconciled(
    acme: Workspace, ledger: str, known: dict[str, Any]
) -> None:
    """An observation is written once: it would overrule what is known, or what can be asked."""
    job = uncertain(acme, ledger)
    job.steps.filter(name="charge").update(**known)
    assert refused("reconcile", job.pk).code == "not_reconcilable"
    assert job.steps.get().observed == ""


@pytest.mark.sqlite
def test_a_step_is_reconciled_once(acme: Workspace, ledger: str) -> None:
    job = uncertain(acme, ledger)
    reconcile(job.pk, step="charge", outcome="happened", actor=SYSTEM, reason=WHY, output={"a": 1})
    assert refused("reconcile", job.pk).code == "not_reconcilable"
    row = job.steps.get()
    assert (row.observed, row.observed_output, row.observed_by) == ("happened", {"a": 1}, "system")


@pytest.mark.sqlite
@pytest.mark.parametrize("output", [object(), {"n": float("nan")}, "a\x00b", "x" * 70_000])
def test_an_observed_output_must_be_storable(acme: Workspace, ledger: str, output: object) -> None:
    job = uncertain(acme, ledger)
    DEEDS["it"] = lambda job_id, **more: reconcile(
        job_id, step="charge", outcome="happened", output=output, **more
    )
    try:
        assert refused("it", job.pk).code == "params_invalid"
    finally:
        del DEEDS["it"]


@pytest.mark.sqlite
def test_what_is_done_cannot_be_denied(acme: Workspace, ledger: str) -> None:
    """Its output could not be stored, so only that can be added; a denial would burn the one
    observation of the step and change nothing."""
    job = ended(once.s(ledger=ledger, fault="nul"), acme)
    assert refused("reconcile", job.pk).code == "not_reconcilable"
    reconcile(job.pk, step="charge", outcome="happened", actor=SYSTEM, reason=WHY, output={})


@pytest.mark.sqlite
def test_a_retried_job_is_reconciled_at_its_newest_retry(acme: Workspace, ledger: str) -> None:
    job = ended(once.s(ledger=ledger, fault="nul"), acme)
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
    error = refused("reconcile", job.pk)
    assert error.code == "not_reconcilable"
    assert str(successor.pk) in error.sentence


@pytest.mark.sqlite
def test_a_retried_job_is_not_retried_again_and_is_not_resolved_twice(
    acme: Workspace, ledger: str
) -> None:
    job = dead(acme, ledger)
    resolve(job.pk, actor=SYSTEM, reason=WHY)
    assert refused("resolve", job.pk).code == "not_resolvable"
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
    error = refused("restart", job.pk)
    assert (error.code, str(successor.pk) in error.sentence) == ("already_retried", True)


@pytest.mark.sqlite
def test_a_job_that_was_retried_is_no_dead_letter_and_is_not_resolved(
    acme: Workspace, ledger: str
) -> None:
    job = dead(acme, ledger)
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
    error = refused("resolve", job.pk)
    assert (error.code, str(successor.pk) in error.sentence) == ("not_resolvable", True)
    job.refresh_from_db()
    assert (job.resolved_at, job.resolution) == (None, "")


@pytest.mark.sqlite
def test_a_kind_that_nobody_knows_is_not_retried(acme: Workspace, ledger: str) -> None:
    job = dead(acme, ledger)
    Job.objects.filter(pk=job.pk).update(kind="drills.of_tomorrow")
    for verb in ("resume", "restart"):
        assert refused(verb, job.pk).code == "unknown_kind"
    assert resolve(job.pk, actor=SYSTEM, reason=WHY).resolved_at is not None


@pytest.mark.sqlite
def test_a_newer_version_is_not_resumed_but_rerun(
    acme: Workspace, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = dead(acme, ledger)
    monkeypatch.setattr(registry.named(job.kind), "version", 2)
    error = refused("resume", job.pk)
    assert (error.code, "Rerun from start" in error.sentence) == ("version_changed", True)
    assert retry(job.pk, mode="restart", actor=SYSTEM, reason=WHY).version == 2


@pytest.mark.sqlite
def test_a_closed_workspace_takes_no_retry_but_its_dead_letters_are_resolved(
    acme: Workspace, ledger: str
) -> None:
    job, other = dead(acme, ledger), dead(acme, ledger, "b")
    closing.close(acme.pk, actor=SYSTEM, reason="they left")
    for verb in ("resume", "restart"):
        assert refused(verb, job.pk).code == "workspace_closed"
    assert resolve(other.pk, actor=SYSTEM, reason=WHY).resolved_at is not None


@pytest.mark.sqlite
@EVERY
def test_an_owner_may_refuse_every_verb_in_its_own_words(acme: Workspace, verb: str) -> None:
    @job_kind("scene.owned", steps=())
    def owned(run: Run) -> None: ...

    asked: list[tuple[str, str]] = []

    @owned.before
    def never(job: JobRow, verb: str) -> None:
        asked.append((job.key, verb))
        raise Refused("order_withdrawn", "Nothing was done: the order was withdrawn.")

    job = waiting(owned.s(), acme)
    if verb != "cancel":
        Job.objects.filter(pk=job.pk).update(state="dead", cause="uncertain", finished_at=Now())
    error = refused(verb, job.pk)
    assert (error.code, error.status, asked) == ("order_withdrawn", 409, [("a", verb)])


# --- the plan that was agreed to -----------------------------------------------------------------


@pytest.mark.sqlite
@pytest.mark.parametrize("verb", ["resume", "restart"])
def test_a_digest_of_another_plan_is_refused_and_that_of_this_one_is_not(
    acme: Workspace, ledger: str, verb: str
) -> None:
    job = dead(acme, ledger)
    digest = preflight(job, verb, SYSTEM).digest
    other = preflight(job, {"resume": "restart", "restart": "resume"}[verb], SYSTEM).digest
    for wrong in (other, "", "0" * 64):
        assert refused(verb, job.pk, digest=wrong).code == "plan_changed"
    assert DEEDS[verb](job.pk, actor=SYSTEM, reason=WHY, digest=digest).created


@pytest.mark.sqlite
def test_what_was_observed_meanwhile_changes_the_plan(acme: Workspace, ledger: str) -> None:
    job = uncertain(acme, ledger)
    before = preflight(job, "resume", SYSTEM)
    reconcile(job.pk, step="charge", outcome="happened", actor=SYSTEM, reason=WHY)
    after = preflight(job, "resume", SYSTEM)
    assert before.digest != after.digest
    assert (before.refusal is None, after.refusal is None) == (False, True)
    assert refused("resume", job.pk, digest=before.digest).code == "plan_changed"


# --- one-time ids --------------------------------------------------------------------------------


def told_once(verb: str, job: Job, operation: uuid.UUID) -> Job:
    return DEEDS[verb](job.pk, actor=SYSTEM, reason=WHY, operation_id=operation)


@pytest.mark.sqlite
@pytest.mark.parametrize("verb", ["resume", "restart", "resolve", "reconcile"])
def test_a_form_that_is_sent_twice_is_done_once(acme: Workspace, ledger: str, verb: str) -> None:
    job = dead(acme, ledger) if verb in ("resume", "restart") else uncertain(acme, ledger)
    operation = uuid.uuid4()
    first = told_once(verb, job, operation)
    before = counts()
    second = told_once(verb, job, operation)
    assert (first.pk, counts()) == (second.pk, before)
    event = AuditEvent.objects.get(operation_id=operation)
    assert (event.action, event.object_id, event.reason) == (f"job.{verb}", str(job.pk), WHY)


@pytest.mark.sqlite
def test_a_one_time_id_does_for_one_deed(acme: Workspace, ledger: str) -> None:
    one, other, operation = dead(acme, ledger), dead(acme, ledger, "b"), uuid.uuid4()
    told_once("resolve", one, operation)
    for verb, job in (("resolve", other), ("resume", other), ("resume", one)):
        assert refused(verb, job.pk, operation_id=operation).code == "operation_repeated"


# --- at the same moment --------------------------------------------------------------------------


@EVERY
def test_a_job_that_somebody_holds_is_busy_and_not_waited_for(
    acme: Workspace, ledger: str, verb: str
) -> None:
    job = uncertain(acme, ledger)
    with held_elsewhere(job):
        error = refused(verb, job.pk)
    assert (error.code, error.status) == ("busy", 503)


def test_a_retry_and_the_closing_of_its_workspace_cannot_pass_each_other(
    acme: Workspace, ledger: str
) -> None:
    job = dead(acme, ledger)
    with meanwhile(lambda: closing.close(acme.pk, actor=SYSTEM, reason="they left")):
        successor = retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
    successor.refresh_from_db()
    assert successor.state == "cancelled", "the closing waited for it, and found it"


def test_a_retry_that_meets_a_closing_workspace_is_refused(acme: Workspace, ledger: str) -> None:
    job, errors = dead(acme, ledger), list[FiredoorError]()

    def retried() -> None:
        try:
            retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
        except FiredoorError as error:
            errors.append(error)

    with meanwhile(retried), transaction.atomic():
        closing.close(acme.pk, actor=SYSTEM, reason="they left")
    assert [error.code for error in errors] == ["workspace_closed"]
    assert not Job.objects.filter(retry_of=job).exists()


@pytest.mark.sqlite
def test_a_deed_may_be_part_of_the_callers_own_transaction(acme: Workspace, ledger: str) -> None:
    job = dead(acme, ledger)
    with transaction.atomic():
        retry(job.pk, mode="resume", actor=SYSTEM, reason=WHY)
        transaction.set_rollback(True)
    assert not Job.objects.filter(retry_of=job).exists()
