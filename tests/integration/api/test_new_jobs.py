"""`POST jobs/`: one job for one intent, whoever asks and how often; and nothing for nonsense."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import registry
from jobs.models import Job
from jobs.recovery.cancel import cancel
from jobs.recovery.retry import retry
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.jobs_scene import PUBLIC, body, public_kind
from workspaces.actors import SYSTEM
from workspaces.models import IdempotencyRecord, Workspace

Callers = Callable[..., Caller]
pytestmark = [pytest.mark.sqlite, pytest.mark.usefixtures("_public")]

LATER = "2100-01-01T00:00:00Z"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
FIVE_THOUSAND = "[" * 5000 + "]" * 5000


@pytest.fixture
def _public() -> Iterator[None]:
    with public_kind():
        yield


def asked(**more: Any) -> dict[str, Any]:
    return {"kind": PUBLIC, "params": {"anything": 1}, "eta": LATER, **more}


def test_a_new_job_is_created_where_its_location_says(caller: Callers) -> None:
    me = caller()

    response = me.post("jobs/", asked(key="order-1"))

    told = body(response)
    assert (response.status_code, told["created"], told["state"]) == (201, True, "queued")
    assert (told["key"], told["actor"], told["wait_reason"]) == (
        "order-1",
        me.account_id,
        "scheduled",
    )
    at = me.get(response["Location"].removeprefix("http://testserver"))
    assert {name: body(at)[name] for name in told if name != "created"} == {
        name: told[name] for name in told if name != "created"
    }


def test_a_key_is_shared_by_the_workspace(caller: Callers, rival: Workspace) -> None:
    first = caller().post("jobs/", asked(key="order-1"))
    again = caller(name="another").post("jobs/", asked(key="order-1"))
    elsewhere = caller(workspace=rival).post("jobs/", asked(key="order-1"))

    assert (again.status_code, body(again)["created"]) == (200, False)
    assert body(again)["id"] == body(first)["id"]
    assert again["Location"] == first["Location"]
    assert elsewhere.status_code == 201


def test_the_same_key_with_other_params_is_refused(caller: Callers) -> None:
    me = caller()
    first = me.post("jobs/", asked(key="order-1"))

    told = problem(me.post("jobs/", asked(key="order-1", params={"anything": 2})))

    assert (told["status"], told["code"]) == (422, "job_key_reused")
    assert told["job_id"] == body(first)["id"]
    assert Job.objects.count() == 1


def test_a_known_intent_answers_with_the_newest_job_of_its_chain(caller: Callers) -> None:
    me = caller()
    first = body(me.post("jobs/", asked(key="order-1")))
    cancel(first["id"], actor=SYSTEM, reason="a mistake")
    successor = retry(first["id"], mode="resume", actor=SYSTEM, reason="no mistake after all")

    again = me.post("jobs/", asked(key="order-1"))

    assert (again.status_code, body(again)["id"]) == (200, str(successor.pk))


def test_without_a_key_of_its_own_the_idempotency_key_names_the_intent(caller: Callers) -> None:
    me, other = caller(), caller(name="another")

    mine = body(me.post("jobs/", asked(), idempotency_key="intent-01"))
    theirs = body(other.post("jobs/", asked(), idempotency_key="intent-01"))

    assert mine["key"] == f"http:{me.account_id}:intent-01"
    assert theirs["key"] == f"http:{other.account_id}:intent-01"
    assert mine["id"] != theirs["id"]


def test_an_intent_is_still_one_when_its_record_has_expired(caller: Callers) -> None:
    me = caller()
    first = body(me.post("jobs/", asked(), idempotency_key="intent-01"))
    IdempotencyRecord.objects.update(expires_at=Now() - timedelta(seconds=1))

    again = me.post("jobs/", asked(), idempotency_key="intent-01")

    assert (again.status_code, again["Idempotent-Replayed"]) == (200, "false")
    assert (body(again)["id"], body(again)["created"]) == (first["id"], False)


def test_without_any_key_each_request_is_an_intent(caller: Callers) -> None:
    me = caller()

    keys = {body(me.post("jobs/", asked()))["key"] for _ in range(2)}

    assert len(keys) == 2
    assert all(key.startswith(f"http:{me.account_id}:") for key in keys)


def test_request_id_and_trace_are_the_jobs(caller: Callers) -> None:
    made = caller().post("jobs/", asked(), x_request_id="request-42", traceparent=TRACE)

    job = Job.objects.get(pk=body(made)["id"])
    assert (job.request_id, job.traceparent) == ("request-42", TRACE)


def test_a_trace_that_is_none_is_left_out(caller: Callers) -> None:
    zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01"
    for trace in ("garbage", zeros, TRACE.replace("00-", "ff-", 1), TRACE.upper()):
        made = caller(name=f"c-{trace[:5]}").post("jobs/", asked(), traceparent=trace)
        assert Job.objects.get(pk=body(made)["id"]).traceparent == ""


def test_kinds_that_are_not_public_are_refused(caller: Callers) -> None:
    me = caller("admin")

    for name, spec in list(registry.KINDS.items()):
        told = me.post("jobs/", {"kind": name, "key": "order-1"})
        if not spec.api:
            assert problem(told)["code"] == "kind_not_public", name
        elif name != PUBLIC:
            assert problem(told)["code"] == "params_invalid", name
    assert set(Job.objects.values_list("kind", flat=True)) == {PUBLIC}


@pytest.mark.parametrize("length", [200, 255])
def test_the_longest_key_makes_one_job_of_its_own(caller: Callers, length: int) -> None:
    """``http:service:1:`` stands before it in the job's key, which has no room for both."""
    me, one, other = caller(), "k" * length, "k" * (length - 1) + "j"
    first, again = (me.post("jobs/", asked(), idempotency_key=one) for _ in range(2))
    second = me.post("jobs/", asked(), idempotency_key=other)

    assert [first.status_code, again.status_code, second.status_code] == [201, 201, 201]
    assert body(first)["id"] == body(again)["id"] != body(second)["id"]
    keys = Job.objects.filter(kind=PUBLIC).values_list("key", flat=True)
    assert len(keys) == 2
    assert all(key.startswith("http:service:") and len(key) <= 255 for key in keys)


def test_who_may_not_enqueue_is_told_which_right_is_missing(caller: Callers) -> None:
    told = problem(caller("viewer").post("jobs/", asked()))

    assert (told["status"], told["code"], told["right"]) == (403, "not_allowed", "jobs.enqueue")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"kind": "no.such"}, "unknown_kind"),
        ({"key": "http:service:1:x"}, "key_reserved"),
        ({"key": "operation:x"}, "key_reserved"),
        ({"key": " "}, "key_invalid"),
        ({"key": "a\nb"}, "key_invalid"),
        ({"params": {"other": 1}}, "params_invalid"),
        ({"params": {"anything": "x" * 70_000}}, "params_too_large"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_kernel_refuses_has_its_own_code(
    caller: Callers, sent: dict[str, Any], code: str
) -> None:
    told = problem(caller().post("jobs/", asked(**sent)))

    assert told["code"] == code
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"kind": 7}, "kind"),
        ({"kind": ""}, "kind"),
        ({"kind": None}, "kind"),
        ({"kind": "k" * 101}, "kind"),
        ({"key": "k" * 256}, "key"),
        ({"key": ["k"]}, "key"),
        ({"params": []}, "params"),
        ({"params": None}, "params"),
        ({"eta": "tomorrow"}, "eta"),
        ({"eta": "2100-01-01T00:00:00"}, "eta"),
        ({"eta": "9999-12-31T23:59:59-14:00"}, "eta"),
        ({"eta": "0001-01-01T00:00:00+14:00"}, "eta"),
        ({"eta": 4102444800}, "eta"),
        ({"countdown": 5}, "countdown"),
    ],
    ids=str,
)
def test_a_field_that_is_wrong_is_named(caller: Callers, sent: dict[str, Any], field: str) -> None:
    told = problem(caller().post("jobs/", asked(**sent)))

    assert (told["status"], told["code"], list(told["errors"])) == (422, "input_invalid", [field])
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "raw",
    [
        '{"anything": "\\u0000"}',
        '{"\\u0000": 1}',
        '{"anything": "\\ud800"}',
        '{"anything": ' + FIVE_THOUSAND + "}",
        '{"anything": ' + "[" * 70 + "]" * 70 + "}",
        '{"anything": ' + "9" * 5000 + "}",
        '{"anything": 1e400}',
        '{"anything": NaN}',
        '{"anything": 1, "anything": 2}',
        '{"anything": "\xff"}',
        "[1, 2]",
        "7",
        '"text"',
        "null",
        "{",
    ],
    ids=lambda raw: raw[:30],
)
@pytest.mark.parametrize("key", [None, "intent-01"])
def test_hostile_params_are_a_mistake_of_the_client(
    caller: Callers, raw: str, key: str | None
) -> None:
    headers = {"idempotency_key": key} if key else {}
    sent = f'{{"kind": "{PUBLIC}", "eta": "{LATER}", "params": {raw}}}'.encode("latin-1")

    response = caller().post("jobs/", sent, **headers)

    assert response.status_code in (400, 422), response.content[:300]
    assert problem(response)["code"] in ("malformed", "input_invalid", "params_invalid")
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "value",
    [10**400, -(10**40), 5e-324, "\U0001f525", "a" * 60_000, {"": {"": []}}, False],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_odd_but_json_is_kept_as_it_came(caller: Callers, value: Any) -> None:
    made = caller().post("jobs/", json.dumps(asked(params={"anything": value})))

    assert made.status_code == 201, made.content[:300]
    assert Job.objects.get().params == {"anything": value}
