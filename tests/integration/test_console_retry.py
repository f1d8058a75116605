"""Retry from the failed step, at the console: one form, one successor, whoever posts what when."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from django.db.models.functions import Now
from django.test import Client

from jobs import registry
from jobs.errors import Refused
from jobs.models import Job, Step
from jobs.recovery.resolve import resolve
from jobs.recovery.retry import retry
from tests.drills.kinds import keyed, secretive
from tests.drills.ledger import effects
from tests.integration.console_scene import (
    REASON,
    at_console,
    confirm,
    dead,
    ended,
    finished,
    form_on,
    page,
    uncertain,
)
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


@pytest.fixture
def ana(acme: Workspace) -> Client:
    return at_console("ana", Role.OPERATOR, acme)


@pytest.fixture
def job(acme: Workspace, tmp_path: Path) -> Job:
    return dead(acme, tmp_path)


def successors(job: Job) -> int:
    return Job.objects.filter(retry_of=job).count()


def deeds() -> int:
    return AuditEvent.objects.filter(object_type="job").count()


def text(response: object) -> str:
    return response.content.decode()  # type: ignore[attr-defined, no-any-return]


def test_looking_changes_nothing_and_says_what_would_happen(ana: Client, job: Job) -> None:
    shown = text(ana.get(confirm(job, "resume")))
    assert "Retry from &#x27;first&#x27;" in shown
    assert "No result of it is stored." in shown
    assert (successors(job), deeds()) == (0, 0)


def test_a_confirm_makes_one_successor_and_answers_a_receipt(
    ana: Client, job: Job, tmp_path: Path
) -> None:
    response = ana.post(confirm(job, "resume"), form_on(ana, confirm(job, "resume")))
    assert response.status_code == 303
    successor = Job.objects.get(retry_of=job)
    receipt = text(ana.get(response["Location"]))
    assert str(successor.pk) in receipt
    assert REASON in receipt
    event = AuditEvent.objects.get(action="job.resume")
    assert (event.actor_label, event.reason) == ("ana", REASON)
    assert event.request_id == response["X-Request-ID"]
    assert successor.actor == event.actor
    assert finished(successor).state == "succeeded"


def test_the_same_form_twice_is_one_successor_and_the_same_receipt(ana: Client, job: Job) -> None:
    form = form_on(ana, confirm(job, "resume"))
    first = ana.post(confirm(job, "resume"), form)
    again = ana.post(confirm(job, "resume"), form)
    assert first["Location"] == again["Location"]
    assert (successors(job), deeds()) == (1, 1)
    assert "not first" not in text(ana.get(again["Location"]))


def test_the_second_operator_gets_the_first_ones_receipt_and_is_told(
    ana: Client, job: Job, acme: Workspace
) -> None:
    ben = at_console("ben", Role.OPERATOR, acme)
    late = form_on(ben, confirm(job, "resume"), reason="me too")
    first = ana.post(confirm(job, "resume"), form_on(ana, confirm(job, "resume")))
    second = ben.post(confirm(job, "resume"), late)
    assert first["Location"] == second["Location"]
    told = text(ben.get(second["Location"]))
    assert "ana has retried it already" in told
    assert "me too" not in told
    assert (successors(job), deeds()) == (1, 1)


def test_the_second_operator_with_another_mode_is_refused(
    ana: Client, job: Job, acme: Workspace
) -> None:
    ben = at_console("ben", Role.OPERATOR, acme)
    late = form_on(ben, confirm(job, "restart"), reason="from scratch")
    ana.post(confirm(job, "resume"), form_on(ana, confirm(job, "resume")))
    response = ben.post(confirm(job, "restart"), late)
    assert response.status_code == 409
    assert "has chosen resume" in text(response)
    assert "from scratch" in text(response)
    assert page(Job.objects.get(retry_of=job)) in text(response)
    assert successors(job) == 1


def test_an_empty_reason_is_refused_on_the_same_page(ana: Client, job: Job) -> None:
    form = form_on(ana, confirm(job, "resume"), reason="   ")
    response = ana.post(confirm(job, "resume"), form)
    assert response.status_code == 422
    assert "say why" in text(response)
    assert form["operation_id"] in text(response)
    assert (successors(job), deeds()) == (0, 0)
    done = ana.post(confirm(job, "resume"), {**form, "reason": REASON})
    assert done.status_code == 303


def test_a_plan_that_has_changed_is_shown_anew_and_nothing_is_done(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    job = uncertain(acme, tmp_path)
    charged = {"step": "charge", "outcome": "happened", "output": '{"ok": true}'}
    observed = form_on(ana, confirm(job, "reconcile"), **charged)
    stale = form_on(ana, confirm(job, "resume"), reason="typed before it changed")
    assert ana.post(confirm(job, "reconcile"), observed).status_code == 303
    response = ana.post(confirm(job, "resume"), stale)
    assert response.status_code == 409
    shown = text(response)
    assert "Nothing was done: what would happen has changed" in shown
    assert "typed before it changed" in shown
    assert stale["digest"] not in shown
    assert response.context["plan"].digest in shown
    assert successors(job) == 0
    renewed = {**stale, "digest": response.context["plan"].digest}
    assert ana.post(confirm(job, "resume"), renewed).status_code == 303


def test_what_was_observed_is_kept_and_nothing_happens_twice(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    job = uncertain(acme, tmp_path)
    blocked = ana.get(confirm(job, "resume"))
    assert "charge may already have happened" in text(blocked)
    assert '<form method="post" class="confirm"' not in text(blocked)
    seen = {"step": "charge", "outcome": "happened", "output": '{"ok": true}'}
    ana.post(confirm(job, "reconcile"), form_on(ana, confirm(job, "reconcile"), **seen))
    done = ana.post(confirm(job, "resume"), form_on(ana, confirm(job, "resume")))
    successor = finished(Job.objects.get(retry_of=job))
    assert successor.state == "succeeded"
    assert effects(tmp_path / job.key) == {"charge": 1, "second": 1}
    assert "Kept, and not run again: charge." in text(ana.get(done["Location"]))
    assert f'kept from <a href="{page(job)}"' in text(ana.get(page(successor)))


def test_a_viewer_is_told_which_right_is_missing(acme: Workspace, job: Job, ana: Client) -> None:
    vic = at_console("vic", Role.VIEWER, acme)
    looked = vic.get(confirm(job, "resume"))
    assert looked.status_code == 403
    assert "jobs.operate" in text(looked)
    form = form_on(ana, confirm(job, "resume"))
    vic.get(page(job))
    form["csrfmiddlewaretoken"] = vic.cookies["csrftoken"].value
    posted = vic.post(confirm(job, "resume"), form)
    assert posted.status_code == 403
    assert "lacks the right &#x27;jobs.operate&#x27;" in text(posted)
    assert REASON in text(posted)
    assert (successors(job), deeds()) == (0, 1)
    tried = AuditEvent.objects.get(actor_label="vic", action="job.resume")
    assert (tried.object_id, tried.reason, tried.result) == (str(job.pk), REASON, "not_allowed")
    assert (tried.request_id, tried.operation_id) == (posted["X-Request-ID"], None)
    assert "Not now: vic lacks the right" in text(vic.get(page(job)))
    assert "vic retried" not in text(ana.get(page(job)))


def test_a_job_that_moved_meanwhile_refuses_and_keeps_the_reason(
    ana: Client, acme: Workspace, job: Job
) -> None:
    form = form_on(ana, confirm(job, "resolve"), reason="not needed any more")
    resolve(job.pk, actor=SYSTEM, reason="done elsewhere")
    response = ana.post(confirm(job, "resolve"), form)
    assert response.status_code == 409
    assert "resolved already" in text(response)
    assert "not needed any more" in text(response)


def test_a_closed_workspace_refuses(ana: Client, acme: Workspace, job: Job) -> None:
    form = form_on(ana, confirm(job, "resume"))
    Workspace.objects.filter(pk=acme.pk).update(closed_at=job.created_at)
    response = ana.post(confirm(job, "resume"), form)
    assert response.status_code == 409
    assert "is closed" in text(response)
    assert successors(job) == 0


@pytest.mark.parametrize("broken", [{"operation_id": ""}, {"operation_id": "x"}, {"digest": ""}])
def test_a_form_without_what_the_page_put_in_does_nothing(
    ana: Client, job: Job, broken: dict[str, str]
) -> None:
    response = ana.post(confirm(job, "resume"), {**form_on(ana, confirm(job, "resume")), **broken})
    assert response.status_code in (409, 422)
    assert "Nothing was done" in text(response)
    assert REASON in text(response)
    assert successors(job) == 0


def test_an_operation_id_of_another_deed_does_nothing(
    ana: Client, acme: Workspace, job: Job, tmp_path: Path
) -> None:
    used = form_on(ana, confirm(job, "resume"))
    ana.post(confirm(job, "resume"), used)
    other = dead(acme, tmp_path, "order-9")
    for verb in ("resume", "resolve"):
        form = form_on(ana, confirm(other, verb), operation_id=used["operation_id"])
        response = ana.post(confirm(other, verb), form)
        assert response.status_code == 409, verb
    other.refresh_from_db()
    assert (successors(other), other.resolved_at) == (0, None)


def test_without_the_csrf_token_nothing_is_done_and_a_page_says_so(ana: Client, job: Job) -> None:
    form = form_on(ana, confirm(job, "resume"))
    del form["csrfmiddlewaretoken"]
    response = ana.post(confirm(job, "resume"), form)
    assert response.status_code == 403
    assert "The form was refused" in text(response)
    assert response["Cache-Control"] == "no-store"
    assert successors(job) == 0


def test_a_retry_from_elsewhere_is_shown_with_its_actor_and_reason(
    ana: Client, job: Job, acme: Workspace
) -> None:
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason="by the command")
    shown = text(ana.get(page(job)))
    assert "the system retried it from the failed step" in shown
    assert "by the command" in shown
    assert page(successor) in shown
    vic = at_console("vic", Role.VIEWER, acme)
    assert "by the command" not in text(vic.get(page(job)))


def test_the_receipt_needs_the_audit_right(ana: Client, job: Job, acme: Workspace) -> None:
    done = ana.post(confirm(job, "resume"), form_on(ana, confirm(job, "resume")))
    refused = at_console("vic", Role.VIEWER, acme).get(done["Location"])
    assert refused.status_code == 403
    assert "audit.view" in text(refused)


def test_a_receipt_that_does_not_exist_is_not_found(ana: Client, job: Job) -> None:
    assert (
        ana.get(f"/admin/jobs/job/{job.pk}/receipts/{uuid.uuid4().int % 10**9}/").status_code == 404
    )


def test_a_risky_kind_wants_a_lead_who_has_read_the_record(
    ana: Client, acme: Workspace, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.named(job.kind), "risk", 3)
    assert "jobs.operate_risky" in text(ana.get(confirm(job, "resume")))
    lead = at_console("lea", Role.LEAD, acme)
    form = form_on(lead, confirm(job, "resume"))
    shown = text(lead.get(confirm(job, "resume")))
    assert "I have read the record and the audit trail" in shown
    assert "&quot;fault&quot;: &quot;terminal&quot;" in shown
    unread = lead.post(confirm(job, "resume"), form)
    assert unread.status_code == 422
    assert "read them first" in text(unread)
    assert successors(job) == 0
    assert lead.post(confirm(job, "resume"), {**form, "read": "on"}).status_code == 303


def test_a_kind_of_another_version_is_only_rerun_from_the_start(ana: Client, job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(version=7)
    shown = text(ana.get(confirm(job, "resume")))
    assert "its steps may not fit any more" in shown
    assert confirm(job, "restart") in shown
    done = ana.post(confirm(job, "restart"), form_on(ana, confirm(job, "restart")))
    assert "Queued a rerun from the start" in text(ana.get(done["Location"]))
    assert Job.objects.get(retry_of=job).epoch == 1


def test_the_owner_of_a_job_can_refuse_and_is_heard(
    ana: Client, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def withdrawn(refused: Job, verb: str) -> None:
        raise Refused("order_withdrawn", f"Nothing was done: {refused.key} was withdrawn.")

    monkeypatch.setattr(registry.named(job.kind), "before_hooks", [withdrawn])
    response = ana.post(confirm(job, "resume"), form_on(ana, confirm(job, "resume")))
    assert response.status_code == 409
    assert "order-1 was withdrawn" in text(response)
    assert REASON in text(response)
    assert successors(job) == 0


def test_the_button_names_the_step_that_runs_first(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    told = {"ledger": str(tmp_path / "l"), "fault": "terminal"}
    job = ended(secretive.s(card={"number": "4711"}, **told), acme, "again")
    shown = ana.get(confirm(job, "resume"))
    first = shown.context["plan"].steps[0]
    assert (first.name, first.word) == ("login", "runs again")
    assert "Retry from &#x27;login&#x27;" in text(shown)


def test_a_keyed_step_that_may_be_sent_again_is_not_asked_about(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    told = {"ledger": str(tmp_path / "l"), "fault": "http_502"}
    job = ended(keyed.s(**told), acme, "sent")
    step = Step.objects.get(job=job, name="reserve")
    assert (job.state, step.state) == ("dead", "started")
    offered = [offer.name for offer in ana.get(page(job)).context["page"].offers]
    assert "Reconcile" not in offered
    assert "Retry from failed step" in offered
    Step.objects.filter(pk=step.pk).update(opens_at=Now())
    assert ana.get(page(job)).context["page"].offers[0].name == "Reconcile"


def test_a_job_that_was_retried_is_not_resolved(ana: Client, job: Job) -> None:
    form = form_on(ana, confirm(job, "resolve"))
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason="mended")
    answer = ana.post(confirm(job, "resolve"), form)
    assert answer.status_code == 409
    assert f"Resolve its newest retry instead: job {successor.pk}" in text(answer).replace(
        "\n", " "
    )


@pytest.mark.parametrize(
    ("reason", "mark"), [("\u200b\u200b", "Say why."), ("x" * 2001, "This is too long.")]
)
def test_a_reason_that_is_none_is_marked_with_what_is_wrong(
    ana: Client, job: Job, reason: str, mark: str
) -> None:
    answer = ana.post(confirm(job, "resume"), form_on(ana, confirm(job, "resume"), reason=reason))
    assert answer.status_code == 422
    assert mark in text(answer)
    assert successors(job) == 0
