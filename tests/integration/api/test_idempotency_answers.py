"""Which answers are kept under a key, how they are repeated, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db.models.functions import Now
from rest_framework.response import Response

from jobs.errors import Busy, NotRetryable, ParamsInvalid
from jobs.models import Job, Upkeep
from jobs.retention import prune as prune_jobs
from jobs.sweep import sweep
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.probe import Probe, streamed
from workspaces import idempotency
from workspaces.checks import check_requests_are_not_atomic
from workspaces.http.errors import TooManyFailures
from workspaces.models import IdempotencyRecord, Workspace

pytestmark = pytest.mark.sqlite
Callers = Callable[..., Caller]
KEY = {"idempotency_key": "the-key-1"}
ORDER = {"kind": "payments.charge", "params": {"order_id": "o-1", "cents": 4200}}


def raising(error: Exception) -> Callable[[Probe], Any]:
    def act(_view: Probe) -> None:
        raise error

    return act


# --- kept ----------------------------------------------------------------------------------------


def test_a_repetition_has_the_same_status_bytes_and_headers_and_its_own_request_id(
    caller: Callers, probe: type[Probe]
) -> None:
    def act(_view: Probe) -> Response:
        answer = Response({"a": 1}, 201, headers={"Location": "/there/", "ETag": '"7"'})
        answer.set_cookie("session", "not-to-be-repeated")
        answer["Vary"], answer["X-Other"] = "Accept", "no"
        return answer

    probe.does(act)
    me = caller()
    first = me.post("probe/", {}, x_request_id="request-1", **KEY)
    me.client.cookies.clear()
    again = me.post("probe/", {}, accept="*/*", **KEY)

    assert (again.status_code, again.content) == (201, b'{"a":1}')
    for name in ("Content-Type", "Location", "ETag", "Idempotency-Key"):
        assert again[name] == first[name]
    assert (first["Idempotent-Replayed"], again["Idempotent-Replayed"]) == ("false", "true")
    assert again["Idempotency-Original-Date"].endswith("GMT")
    assert again["X-Request-ID"] != "request-1"
    assert "X-Other" not in again
    assert not again.cookies
    record = IdempotencyRecord.objects.get()
    assert (record.request_id, record.last_request_id) == ("request-1", again["X-Request-ID"])
    assert record.replays == 1


def test_what_is_kept_is_repeated_whatever_is_accepted_by_then(
    caller: Callers, probe: type[Probe]
) -> None:
    """I-65. The first request is refused as ever, and leaves its key unused."""
    me = caller()
    refused = me.post("probe/", {}, accept="text/html", **KEY)
    assert (refused.status_code, problem(refused)["code"]) == (406, "not_acceptable")
    assert (Group.objects.count(), IdempotencyRecord.objects.count()) == (0, 0)

    first = me.post("probe/", {}, **KEY)
    again = me.post("probe/", {}, accept="text/html", **KEY)

    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again["Content-Type"] == first["Content-Type"] == "application/json"
    assert again["Idempotent-Replayed"] == "true"
    assert me.post("probe/", {}, accept="text/html").status_code == 406, "without a key"
    assert Group.objects.count() == 1


def test_a_unique_name_is_repeated_and_not_refused_as_taken(
    caller: Callers, probe: type[Probe]
) -> None:
    me = caller()
    answers = [me.post("probe/", {"name": "prod"}, **KEY) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert Group.objects.count() == 1


def test_a_deletion_is_repeated_although_the_thing_is_gone(
    caller: Callers, probe: type[Probe]
) -> None:
    me = caller()
    Group.objects.create(name="prod")
    answers = [me.send("DELETE", "probe/prod/", b"", **KEY) for _ in range(2)]
    assert [(answer.status_code, answer.content) for answer in answers] == [(204, b"")] * 2
    assert me.send("DELETE", "probe/prod/", b"", idempotency_key="the-key-2").status_code == 404


def test_a_refusal_by_the_state_of_things_is_kept_and_asks_for_a_new_key(
    caller: Callers, probe: type[Probe]
) -> None:
    probe.does(raising(NotRetryable("Nothing was done: it is over.")))
    me = caller()
    first = me.post("probe/", {}, **KEY)
    probe.does(lambda _view: None)
    again = me.post("probe/", {}, **KEY)
    fresh = me.post("probe/", {}, idempotency_key="the-key-2")

    assert (first.status_code, problem(first)["retry"]) == (409, "new_key")
    assert (again.status_code, again.content) == (409, first.content)
    assert again["Content-Type"] == "application/problem+json"
    assert (again["Idempotent-Replayed"], fresh.status_code) == ("true", 201)
    assert Group.objects.count() == 1


# --- not kept ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (RuntimeError("a fault of ours"), 500, "same_key"),
        (Busy("Nothing was done: somebody else is at it."), 503, "same_key"),
        (TooManyFailures(60), 429, "same_key"),
        (ParamsInvalid("Nothing was done: look at the params."), 422, "none"),
    ],
    ids=["500", "503", "429", "422"],
)
def test_what_left_nothing_behind_leaves_the_key_unused(
    caller: Callers, probe: type[Probe], error: Exception, status: int, retry: str
) -> None:
    probe.does(raising(error))
    me = caller()
    first = me.post("probe/", {}, **KEY)
    left = (Group.objects.count(), IdempotencyRecord.objects.count())
    probe.does(lambda _view: None)
    again = me.post("probe/", {}, **KEY)

    assert (first.status_code, problem(first)["retry"], left) == (status, retry, (0, 0))
    assert "Idempotent-Replayed" not in first
    assert (int(first.get("Retry-After", 0)) >= 1) is (status in (429, 503))
    assert (again.status_code, again["Idempotent-Replayed"]) == (201, "false")
    assert Group.objects.count() == 1


def test_a_corrected_body_may_use_the_key_of_the_wrong_one(caller: Callers) -> None:
    me = caller()
    wrong = me.post("jobs/", {**ORDER, "params": {"order_id": 1}}, **KEY)
    right = me.post("jobs/", ORDER, **KEY)
    assert (wrong.status_code, right.status_code) == (422, 201)


@pytest.mark.parametrize(
    "act", [streamed, lambda _view: Response({"a": "x" * 70_000})], ids=["stream", "large"]
)
def test_an_answer_that_cannot_be_kept_is_a_fault_and_undone(
    caller: Callers, probe: type[Probe], act: Callable[[Probe], Any]
) -> None:
    probe.does(act)
    answer = caller().post("probe/", {}, **KEY)
    assert (answer.status_code, problem(answer)["code"]) == (500, "internal")
    assert (Group.objects.count(), IdempotencyRecord.objects.count()) == (0, 0)


# --- for how long --------------------------------------------------------------------------------


def expire() -> None:
    IdempotencyRecord.objects.update(expires_at=Now() - timedelta(seconds=1))


def test_a_key_lives_for_a_day_and_a_repetition_does_not_prolong_it(
    caller: Callers, probe: type[Probe]
) -> None:
    me = caller()
    me.post("probe/", {}, **KEY)
    before = IdempotencyRecord.objects.get()
    me.post("probe/", {}, **KEY)
    after = IdempotencyRecord.objects.get()
    assert before.expires_at - before.created_at == timedelta(hours=24)
    assert (after.expires_at, after.replays) == (before.expires_at, 1)


def test_an_expired_key_is_new_but_the_jobs_own_key_still_holds(
    caller: Callers, acme: Workspace
) -> None:
    me = caller()
    first = me.post("jobs/", ORDER, **KEY)
    expire()
    again = me.post("jobs/", ORDER, **KEY)
    expire()
    other = me.post("jobs/", {**ORDER, "params": {"order_id": "o-2", "cents": 1}}, **KEY)

    assert (again.status_code, again["Idempotent-Replayed"]) == (200, "false")
    assert again.json()["created"] is False
    assert again.json()["id"] == first.json()["id"]
    assert (other.status_code, problem(other)["code"]) == (422, "job_key_reused")
    assert Job.objects.filter(workspace=acme).count() == 1


def test_record_and_job_go_without_each_other(caller: Callers) -> None:
    me = caller()
    job_id = me.post("jobs/", ORDER, **KEY).json()["id"]
    expire()
    idempotency.prune()
    assert Job.objects.filter(pk=job_id).exists()

    again = me.post("jobs/", ORDER, idempotency_key="the-key-2", content_type="application/json")
    Job.objects.filter(pk=job_id).update(
        state="cancelled", cause="", finished_at=Now() - timedelta(days=400)
    )
    prune_jobs()
    kept = me.post("jobs/", ORDER, idempotency_key="the-key-2")
    assert not Job.objects.filter(pk=job_id).exists()
    assert (kept.content, kept["Idempotent-Replayed"]) == (again.content, "true")


def many(workspace: Workspace, count: int, **other: Any) -> None:
    IdempotencyRecord.objects.bulk_create(
        IdempotencyRecord(
            workspace=workspace, principal="service:1", key=f"key-{other}-{n}", fingerprint="fp1:x",
            method="POST", path="/x/", status=201, request_id="r", created_at=Now(),
            expires_at=Now() + other.get("left", timedelta(0)),
        )
        for n in range(count)
    )  # fmt: skip


def test_pruning_takes_what_has_expired_in_bounded_transactions(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    monkeypatch.setattr(idempotency, "PRUNED_AT_ONCE", 10)
    many(acme, 25)
    many(acme, 3, left=timedelta(minutes=1))
    with django_assert_max_num_queries(4):
        assert idempotency.prune() == 10
    assert idempotency.prune(batches=5) == 15
    assert idempotency.prune() == 0
    assert IdempotencyRecord.objects.count() == 3


def test_the_upkeep_pass_prunes_once_an_hour(acme: Workspace) -> None:
    many(acme, 2)
    assert sweep().keys == 2
    many(acme, 2)
    assert sweep().keys == 0
    Upkeep.objects.filter(name="prune").update(passed_at=Now() - timedelta(hours=2))
    assert sweep().keys == 2


# --- settings ------------------------------------------------------------------------------------


def test_a_transaction_around_every_request_is_refused_at_start(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_command("check", "--tag", "workspaces")
    assert check_requests_are_not_atomic() == []
    monkeypatch.setitem(settings.DATABASES["default"], "ATOMIC_REQUESTS", 1)
    (fault,) = check_requests_are_not_atomic()
    assert fault.id == "workspaces.E001"
