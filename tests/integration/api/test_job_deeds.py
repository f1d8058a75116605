"""Retry, cancel, resolve and reconcile over HTTP: the console's services, with their statuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import registry
from jobs.models import Job
from jobs.models.ids import uuid7
from jobs.testing import drain
from tests.drills.kinds import noop, once, repeatable
from tests.drills.ledger import effects
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.jobs_scene import body, dead, waiting
from workspaces.models import AuditEvent, Workspace

Callers = Callable[..., Caller]
pytestmark = pytest.mark.sqlite

WHY = "the provider is back, see INC-42"
LATER = {"reason": WHY}


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


@pytest.fixture
def letter(acme: Workspace, ledger: str) -> Job:
    """A dead letter whose first step is done."""
    return dead(repeatable.s(ledger=ledger), acme, "second")


@pytest.fixture
def doubt(acme: Workspace, ledger: str) -> Job:
    """A job that nobody knows the outcome of, and nobody can ask."""
    job = waiting(once.s(ledger=ledger, fault="reset"), acme)
    drain()
    job.refresh_from_db()
    assert (job.state, job.cause) == ("dead", "uncertain")
    return job


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a deed queues is run before it was looked at."""
    monkeypatch.setattr("jobs.publish.drain", lambda: 0)


def deed(me: Caller, job: Job, verb: str, said: Any = None, **headers: str) -> Any:
    return me.post(f"jobs/{job.pk}/{verb}/", LATER if said is None else said, **headers)


def audited(job: Job) -> list[tuple[str, str, str, str]]:
    events = AuditEvent.objects.filter(object_id=str(job.pk)).order_by("pk")
    return list(events.values_list("action", "actor", "request_id", "result"))


def test_the_plan_says_what_becomes_of_each_step(caller: Callers, letter: Job) -> None:
    me = caller()

    plan = body(me.get(f"jobs/{letter.pk}/retry/"))
    rerun = body(me.get(f"jobs/{letter.pk}/retry/", {"mode": "restart"}))

    assert (plan["verb"], plan["allowed"]) == ("resume", True)
    assert {s["name"]: s["word"] for s in plan["steps"]} == {"first": "kept", "second": "runs"}
    assert {s["name"]: s["word"] for s in rerun["steps"]} == {
        "first": "runs again",
        "second": "runs",
    }
    assert plan["digest"] != rerun["digest"]


@pytest.mark.parametrize("query", ["mode=again", "mod=restart", "mode=resume&mode=restart"])
def test_a_plan_is_of_one_known_mode(caller: Callers, letter: Job, query: str) -> None:
    told = problem(caller().get(f"jobs/{letter.pk}/retry/?{query}"))

    assert (told["status"], told["code"]) == (422, "input_invalid")


@pytest.mark.usefixtures("held")
def test_a_retry_makes_one_successor_and_the_second_operator_is_told_of_it(
    caller: Callers, letter: Job
) -> None:
    me, other = caller(), caller(name="another")
    digest = body(me.get(f"jobs/{letter.pk}/retry/"))["digest"]

    first = deed(me, letter, "retry", {**LATER, "mode": "resume", "digest": digest})
    second = deed(other, letter, "retry")

    made, found = body(first), body(second)
    assert (first.status_code, made["created"]) == (202, True)
    assert (second.status_code, found["created"]) == (200, False)
    assert found["id"] == made["id"]
    assert (found["actor"], found["created_at"]) == (me.account_id, made["created_at"])
    assert first["Location"] == second["Location"]
    assert made["retry_of"] == str(letter.pk)
    assert audited(letter) == [("job.resume", me.account_id, first["X-Request-ID"], "done")]


@pytest.mark.usefixtures("held")
def test_another_mode_than_the_first_operators_is_refused(caller: Callers, letter: Job) -> None:
    me = caller()
    made = body(deed(me, letter, "retry"))

    told = problem(deed(caller(name="another"), letter, "retry", {**LATER, "mode": "restart"}))

    assert (told["status"], told["code"]) == (409, "already_retried")
    assert told["successor"] == {
        "id": made["id"],
        "mode": "resume",
        "actor": me.account_id,
        "created_at": made["created_at"],
    }


def test_a_retry_runs_no_finished_step(caller: Callers, letter: Job, ledger: str) -> None:
    made = body(deed(caller(), letter, "retry"))
    drain()

    assert Job.objects.get(pk=made["id"]).state == "succeeded"
    assert effects(ledger) == {"first": 1, "second": 1}


@pytest.mark.usefixtures("held")
def test_a_retried_job_is_no_dead_letter_any_more(caller: Callers, letter: Job) -> None:
    me = caller()
    letters = body(me.get("jobs/", {"dead_letter": "true"}))["results"]
    assert [job["id"] for job in letters] == [str(letter.pk)]

    made = body(deed(me, letter, "retry"))

    assert body(me.get("jobs/", {"dead_letter": "true"}))["results"] == []
    assert body(me.get(f"jobs/{letter.pk}/"))["retried_at"] is not None
    assert body(me.get(f"jobs/{made['id']}/"))["retried_at"] is None


def test_what_cannot_be_retried_says_why(caller: Callers, acme: Workspace) -> None:
    told = problem(deed(caller(), waiting(noop.s(), acme), "retry"))

    assert (told["status"], told["code"], told["retry"]) == (409, "not_retryable", "new_key")


def test_a_step_in_doubt_asks_for_a_reconcile_first(caller: Callers, doubt: Job) -> None:
    told = problem(deed(caller(), doubt, "retry"))

    assert (told["status"], told["code"]) == (409, "reconcile_required")
    assert told["steps"] == ["charge"]


def test_a_plan_that_is_not_the_one_that_was_read_is_refused(caller: Callers, letter: Job) -> None:
    me = caller()
    digest = body(me.get(f"jobs/{letter.pk}/retry/"))["digest"]
    letter.steps.all().delete()

    told = problem(deed(me, letter, "retry", {**LATER, "digest": digest}))

    assert (told["status"], told["code"]) == (409, "plan_changed")
    assert not Job.objects.filter(retry_of=letter).exists()


def test_a_newer_kind_is_not_resumed(
    caller: Callers, letter: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.named(letter.kind), "version", 2)

    told = problem(deed(caller(), letter, "retry"))

    assert (told["status"], told["code"]) == (409, "version_changed")


@pytest.mark.usefixtures("held")
def test_a_queued_job_is_cancelled_at_once_and_a_running_one_is_asked(
    caller: Callers, acme: Workspace
) -> None:
    me = caller()
    queued, running = waiting(noop.s(), acme, "a"), waiting(noop.s(), acme, "b")
    Job.objects.filter(pk=running.pk).update(state="running", lease_until=Now(), attempt=1)

    ended, asked = deed(me, queued, "cancel"), deed(me, running, "cancel")

    assert (ended.status_code, body(ended)["state"]) == (200, "cancelled")
    assert (asked.status_code, body(asked)["state"]) == (202, "running")
    assert body(asked)["cancel_requested_at"] is not None
    again = problem(deed(me, queued, "cancel"))
    assert (again["status"], again["code"]) == (409, "not_cancellable")


def test_a_dead_letter_is_resolved_once(caller: Callers, letter: Job) -> None:
    me = caller()

    response = deed(me, letter, "resolve")

    assert (response.status_code, body(response)["state"]) == (200, "dead")
    assert body(response)["resolved_at"] is not None
    assert body(me.get(f"jobs/{letter.pk}/"))["resolution"] == WHY
    again = problem(deed(me, letter, "resolve"))
    assert (again["status"], again["code"]) == (409, "not_resolvable")


def test_an_observation_makes_the_retry_possible(caller: Callers, doubt: Job, ledger: str) -> None:
    me = caller()
    seen = {**LATER, "step": "charge", "outcome": "happened", "output": {"ok": True, "n": [1]}}

    assert deed(me, doubt, "reconcile", seen).status_code == 200
    made = body(deed(me, doubt, "retry"))
    drain()

    (step,) = (s for s in body(me.get(f"jobs/{made['id']}/"))["steps"] if s["name"] == "charge")
    assert (step["state"], step["output"]) == ("done", {"ok": True, "n": [1]})
    assert effects(ledger)["charge"] == 1
    again = problem(deed(me, doubt, "reconcile", seen))
    assert (again["status"], again["code"]) == (409, "not_reconcilable")


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"outcome": "maybe"}, "outcome"),
        ({"outcome": None}, "outcome"),
        ({"outcome": "did_not_happen", "output": 1}, "output"),
        ({"step": ""}, "step"),
        ({"step": "s" * 121}, "step"),
        ({"reason": 7}, "reason"),
        ({"steps": "charge"}, "steps"),
    ],
    ids=str,
)
def test_an_observation_that_is_wrong_is_named(
    caller: Callers, doubt: Job, said: dict[str, Any], field: str
) -> None:
    seen = {**LATER, "step": "charge", "outcome": "happened", **said}

    told = problem(deed(caller(), doubt, "reconcile", seen))

    assert (told["status"], told["code"], list(told["errors"])) == (422, "input_invalid", [field])
    assert audited(doubt) == []


@pytest.mark.parametrize("verb", ["retry", "cancel", "resolve", "reconcile"])
@pytest.mark.parametrize(
    ("reason", "code"),
    [("", "reason_required"), (" ", "reason_required"), ("r" * 2001, "reason_too_long")],
    ids=["empty", "blank", "long"],
)
def test_a_reason_that_cannot_be_kept_has_the_code_that_it_has_everywhere(
    caller: Callers, doubt: Job, verb: str, reason: str, code: str
) -> None:
    more = {"step": "charge", "outcome": "happened"} if verb == "reconcile" else {}

    told = problem(deed(caller(), doubt, verb, {"reason": reason, **more}))

    assert (told["status"], told["code"]) == (422, code)
    assert audited(doubt) == []


@pytest.mark.parametrize("verb", ["retry", "cancel", "resolve", "reconcile"])
def test_who_may_not_is_told_which_right_is_missing_and_nothing_else(
    caller: Callers, letter: Job, verb: str
) -> None:
    told = problem(deed(caller("viewer"), letter, verb))

    assert (told["status"], told["code"], told["right"]) == (403, "not_allowed", "jobs.operate")


def test_a_risky_kind_needs_a_lead(
    caller: Callers, letter: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.named(letter.kind), "risk", 3)

    told = problem(deed(caller(), letter, "retry"))

    assert (told["status"], told["right"]) == (403, "jobs.operate_risky")
    assert deed(caller("lead"), letter, "retry").status_code == 202


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"])
@pytest.mark.parametrize("path", ["", "retry/", "cancel/", "resolve/", "reconcile/"])
def test_a_foreign_job_does_not_exist_for_any_verb(
    caller: Callers, letter: Job, rival: Workspace, path: str, method: str
) -> None:
    stranger = caller("admin", workspace=rival)

    foreign = stranger.send(method, f"jobs/{letter.pk}/{path}", LATER)
    absent = stranger.send(method, f"jobs/{uuid7()}/{path}", LATER)
    elsewhere = stranger.send(method, f"{letter_url(letter)}{path}", LATER)

    assert {foreign.status_code, absent.status_code, elsewhere.status_code} == {404}
    letter.refresh_from_db()
    assert letter.retried_at is letter.resolved_at is None


def letter_url(job: Job) -> str:
    return f"/api/v1/workspaces/acme/jobs/{job.pk}/"


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("verb", ["retry", "cancel", "resolve", "reconcile"])
def test_a_deed_with_a_key_is_answered_once(
    caller: Callers, acme: Workspace, letter: Job, doubt_or: Callable[[str], Job], verb: str
) -> None:
    me = caller()
    job = doubt_or(verb)
    said = {**LATER, "step": "charge", "outcome": "happened"} if verb == "reconcile" else LATER

    first = deed(me, job, verb, said, idempotency_key="deed-0001")
    again = deed(me, job, verb, said, idempotency_key="deed-0001")

    assert first.status_code in (200, 202)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert (first["Idempotent-Replayed"], again["Idempotent-Replayed"]) == ("false", "true")
    assert len(audited(job)) == 1


@pytest.fixture
def doubt_or(acme: Workspace, letter: Job, request: pytest.FixtureRequest) -> Callable[[str], Job]:
    """A job that the verb can be done to."""

    def made(verb: str) -> Job:
        if verb == "cancel":
            return waiting(noop.s(), acme)
        return request.getfixturevalue("doubt") if verb == "reconcile" else letter

    return made


def test_a_refusal_by_state_is_kept_under_its_key(caller: Callers, letter: Job) -> None:
    me = caller()

    first = deed(me, letter, "cancel", idempotency_key="deed-0001")
    again = deed(me, letter, "cancel", idempotency_key="deed-0001")

    assert problem(first)["code"] == "not_cancellable"
    assert (again.status_code, again.content) == (409, first.content)
    assert again["Idempotent-Replayed"] == "true"
