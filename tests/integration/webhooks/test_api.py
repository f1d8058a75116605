"""Endpoints and deliveries over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from jobs.models import Job, Operation
from jobs.sweep import sweep
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.shapes import faults
from tests.integration.kernel.scene import started
from tests.integration.webhooks.scene import (
    TOLD,
    attempt,
    attempts,
    deliveries,
    delivery,
    endpoint,
    failing,
    job_of,
    tell,
)
from tests.support.receiver import Receiver
from webhooks.api import answers
from webhooks.models import Endpoint, EndpointSecret
from workspaces.models import AuditEvent, IdempotencyRecord, Workspace
from workspaces.permissions import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]
Callers = Callable[..., Caller]


def body(response: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(response.content)
    return told


def test_an_endpoint_is_made_and_its_secret_told_once(
    acme: Workspace, hook: Receiver, caller: Callers
) -> None:
    me = caller(Role.ADMIN)
    said = {"url": hook.url, "events": [TOLD], "headers": {"X-Key": "hunter2"}, "delays": [5, 10]}
    made = me.post("webhook-endpoints/", said, idempotency_key="first-one")
    again = me.post("webhook-endpoints/", said, idempotency_key="first-one")

    told = body(made)
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    assert faults(answers.EndpointShown(), told) == []
    assert told["secret"].startswith("whsec_")
    assert told["headers"] == ["X-Key"]
    assert again["Idempotent-Replayed"] == "true"
    assert body(again) == {**told, "secret": None}
    assert Endpoint.objects.count() == 1
    kept = bytes(IdempotencyRecord.objects.get().body).decode()
    assert told["secret"] not in kept
    one = me.get(f"webhook-endpoints/{told['id']}/")
    assert body(one)["secret"] is None
    assert "hunter2" not in one.content.decode().replace("hunter2-in-the-url", "")


def test_a_rotated_secret_is_told_once(acme: Workspace, hook: Receiver, caller: Callers) -> None:
    me = caller(Role.ADMIN)
    made = body(me.post("webhook-endpoints/", {"url": hook.url, "events": ["*"]}))
    path = f"webhook-endpoints/{made['id']}/secret/rotate/"
    rotated = body(me.post(path, {}, idempotency_key="rotate-1"))
    again = me.post(path, {}, idempotency_key="rotate-1")
    assert again["Idempotent-Replayed"] == "true"
    assert body(again) == {**rotated, "secret": None}
    assert EndpointSecret.objects.count() == 2
    assert rotated["secret"].startswith("whsec_")
    assert rotated["secret"] != made["secret"]
    assert [one["expires_at"] is None for one in rotated["secrets"]] == [True, False]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://hooks.example.com/", "scheme"),
        ("https://me:you@hooks.example.com/", "userinfo"),
        ("https://hooks.example.com/#x", "form"),
        ("https://intranet/", "host"),
    ],
)
def test_a_url_that_is_refused_says_why(
    acme: Workspace, caller: Callers, url: str, reason: str
) -> None:
    refused = caller(Role.ADMIN).post("webhook-endpoints/", {"url": url, "events": ["*"]})
    told = problem(refused)
    assert (told["status"], told["code"]) == (422, "webhook_url_refused")
    assert told["reason"] == reason


def test_it_is_changed_switched_and_listed(
    acme: Workspace, hook: Receiver, caller: Callers
) -> None:
    me, one = caller(Role.ADMIN), endpoint(acme, hook)
    at = f"webhook-endpoints/{one.pk}/"
    changed = body(me.send("PATCH", at, {"description": "billing", "events": ["*"]}))
    assert (changed["description"], changed["events"]) == ("billing", ["*"])
    assert changed["url"] == hook.url
    assert body(me.post(f"{at}disable/"))["state"] == "disabled"
    too_soon = me.post(f"{at}enable/")
    assert (too_soon.status_code, too_soon["Retry-After"]) == (409, "60")
    assert problem(too_soon)["retry"] == "same_key"
    Endpoint.objects.update(state_since=Now() - timedelta(hours=1))
    assert body(me.post(f"{at}enable/"))["state"] == "failing"
    page = body(me.get("webhook-endpoints/", {"state": "failing"}))
    assert faults(answers.EndpointPage(), page) == []
    assert [line["id"] for line in page["results"]] == [str(one.pk)]
    assert body(me.get("webhook-endpoints/", {"state": "active"}))["results"] == []


def test_the_query_of_a_url_is_for_who_may_write_it(
    acme: Workspace, hook: Receiver, caller: Callers
) -> None:
    """Many receivers want a key in it."""
    plain, _, query = hook.url.partition("?")
    assert query
    admin, lead, viewer = caller(Role.ADMIN), caller(Role.LEAD), caller(Role.VIEWER)
    one = body(admin.post("webhook-endpoints/", {"url": hook.url, "events": [TOLD]}))
    tell(acme)
    mine = attempt(delivery())

    for me, url in ((admin, hook.url), (lead, plain), (viewer, plain)):
        assert body(me.get(f"webhook-endpoints/{one['id']}/"))["url"] == url
        assert [line["url"] for line in body(me.get("webhook-endpoints/"))["results"]] == [url]
    told = body(admin.get(f"webhook-deliveries/{mine.pk}/"))
    assert [each["url"] for each in told["attempts"]] == [plain]


def test_deliveries_are_told_with_every_request(
    acme: Workspace, hook: Receiver, caller: Callers
) -> None:
    me = caller()
    endpoint(acme, hook)
    hook.answers(500, 200)
    tell(acme)
    mine = attempt(delivery())
    started(job_of(mine), lease=-1)
    assert body(me.get("webhook-deliveries/"))["results"][0]["status"] == "sending"
    sweep(reap_now=True)
    assert body(me.get("webhook-deliveries/"))["results"][0]["status"] == "pending"
    attempts(mine)

    page = body(me.get("webhook-deliveries/"))
    told = body(me.get(f"webhook-deliveries/{mine.pk}/"))
    assert faults(answers.DeliveryPage(), page) == []
    assert faults(answers.DeliveryShown(), told) == []
    assert (told["status"], told["message_id"]) == ("succeeded", hook.got[0].message_id)
    codes = [(one["number"], one["code"], one["status_code"]) for one in told["attempts"]]
    assert codes == [(1, "http_500", 500), (2, "unknown", None), (3, "ok", 200)]
    assert told["attempts"][2]["excerpt"] == "ok"


def test_the_list_is_narrowed(acme: Workspace, hook: Receiver, caller: Callers) -> None:
    me, one, other = caller(), endpoint(acme, hook), endpoint(acme, hook, events=["job.cancelled"])
    failing(acme, one, hook)
    tell(acme, "job.cancelled")
    now = timezone.now().isoformat()

    def found(**query: str) -> list[str]:
        return [
            line["endpoint_id"] for line in body(me.get("webhook-deliveries/", query))["results"]
        ]

    assert found() == [str(other.pk), str(one.pk)]
    assert found(endpoint=str(one.pk)) == [str(one.pk)]
    assert found(endpoint=str(one.pk), status="dead") == [str(one.pk)]
    assert found(endpoint=str(one.pk), status="open") == []
    assert found(status="open") == [str(other.pk)]
    assert found(event_type="job.cancelled") == [str(other.pk)]
    assert found(until=now) == [str(other.pk), str(one.pk)]
    assert found(since=now) == []
    assert problem(me.get("webhook-deliveries/", {"state": "dead"}))["code"] == "input_invalid"


def test_what_done_twice_would_be_two_deeds_needs_a_key(
    acme: Workspace, hook: Receiver, caller: Callers
) -> None:
    me, one = caller(Role.ADMIN), failing(acme, endpoint(acme, hook), hook)
    since = (timezone.now() - timedelta(hours=1)).isoformat()
    deeds: dict[str, dict[str, Any]] = {
        f"webhook-endpoints/{one.pk}/secret/rotate/": {},
        f"webhook-endpoints/{one.pk}/recover/": {"since": since, "reason": "mended"},
        f"webhook-deliveries/{deliveries()[0].pk}/redeliver/": {"reason": "mended"},
    }
    for path, said in deeds.items():
        refused = problem(me.post(path, said))
        assert (refused["status"], refused["code"]) == (400, "idempotency_key_missing"), path
        assert refused["retry"] == "new_key"
    assert (EndpointSecret.objects.count(), Job.objects.count()) == (1, 1)
    assert Operation.objects.count() == 0
    for number, (path, said) in enumerate(deeds.items()):
        assert me.post(path, said, idempotency_key=f"the-deed-{number}").status_code in (200, 202)


def test_it_is_sent_again_tested_and_recovered(
    acme: Workspace, hook: Receiver, caller: Callers
) -> None:
    """W-63, W-67, W-69."""
    me, one = caller(), endpoint(acme, hook)
    failing(acme, one, hook)
    mine = deliveries()[0]
    since = (timezone.now() - timedelta(hours=1)).isoformat()
    asked = {"since": since, "reason": "mended"}
    path = f"webhook-endpoints/{one.pk}/recover/"
    first = me.post(path, asked, idempotency_key="recover-1")
    second = me.post(path, asked, idempotency_key="recover-1")
    assert first.status_code == 202
    assert faults(answers.RecoveryStarted(), body(first)) == []
    assert body(second) == body(first)
    assert body(first)["matched"] == 1
    other = me.post(path, asked, idempotency_key="recover-2")
    assert problem(other)["code"] == "webhook_recover_running"
    stopped = me.post(f"operations/{body(first)['operation_id']}/stop/", {"reason": "enough"})
    assert stopped.status_code == 200

    again = f"webhook-deliveries/{mine.pk}/redeliver/"
    sent = me.post(again, {"reason": "mended"}, idempotency_key="redeliver-1")
    assert (sent.status_code, body(sent)["status"]) == (202, "pending")
    twice = me.post(again, {"reason": "mended"}, idempotency_key="redeliver-2")
    assert problem(twice)["code"] == "webhook_delivery_in_flight"
    tried = me.post(f"webhook-endpoints/{one.pk}/test/")
    assert (tried.status_code, body(tried)["event_type"]) == (202, "webhook.test")
    hook.answers(200)
    for each in deliveries():
        attempts(each)
    assert {each.status for each in deliveries()} == {"succeeded"}

    caller(Role.ADMIN, name="boss").post(f"webhook-endpoints/{one.pk}/disable/")
    for address, said in (
        (again, {"reason": "mended"}),
        (f"webhook-endpoints/{one.pk}/test/", {}),
        (path, asked),
    ):
        refused = me.post(address, said, idempotency_key=f"too-late-{len(address)}")
        assert problem(refused)["code"] == "webhook_endpoint_disabled"


def test_a_window_too_long_is_refused(acme: Workspace, hook: Receiver, caller: Callers) -> None:
    """W-68."""
    one = endpoint(acme, hook)
    since = (timezone.now() - timedelta(days=14, seconds=5)).isoformat()
    said = {"since": since, "reason": "mended"}
    refused = caller().post(
        f"webhook-endpoints/{one.pk}/recover/", said, idempotency_key="recover-1"
    )
    assert (refused.status_code, problem(refused)["code"]) == (422, "webhook_window_invalid")


def test_what_is_refused_is_on_record_and_changes_nothing(
    acme: Workspace, hook: Receiver, caller: Callers
) -> None:
    one = endpoint(acme, hook)
    refused = caller(Role.LEAD).post(f"webhook-endpoints/{one.pk}/secret/rotate/", {})
    assert problem(refused)["right"] == "webhooks.manage"
    assert EndpointSecret.objects.count() == 1
    assert Job.objects.count() == 0
    assert AuditEvent.objects.filter(result="not_allowed", action="webhooks.manage").exists()
