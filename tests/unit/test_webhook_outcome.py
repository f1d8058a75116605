"""What an answer means, how long to wait, and when an endpoint is given up."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from webhooks import bodies
from webhooks.catalogue import CATALOGUE, OPT_IN, SUBSCRIBABLE, is_subscribed
from webhooks.egress import Reply
from webhooks.health import Record, after_final_failure, is_quick, is_slow
from webhooks.outcome import outcome_of, wait_before_next
from webhooks.requests import HeadersRefused, check_headers
from webhooks.states import EndpointState, Reason

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def answer(status: int, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply("ok", sent=True, seconds=0.1, status=status, headers=named)


@pytest.mark.parametrize(
    ("status", "code", "ok", "again"),
    [
        (199, "http_199", False, False),
        (200, "ok", True, False),
        (299, "ok", True, False),
        (300, "redirect_refused", False, False),
        (307, "redirect_refused", False, False),
        (400, "http_400", False, False),
        (404, "http_404", False, False),
        (408, "http_408", False, True),
        (410, "gone", False, False),
        (425, "http_425", False, True),
        (429, "http_429", False, True),
        (500, "http_500", False, True),
        (599, "http_599", False, True),
    ],
)
def test_each_status_has_its_meaning(status: int, code: str, ok: bool, again: bool) -> None:
    found = outcome_of(answer(status), NOW)
    assert (found.code, found.ok, found.again) == (code, ok, again)


@pytest.mark.parametrize(
    ("code", "again"),
    [
        ("dns", True),
        ("connect", True),
        ("timeout", True),
        ("reset", True),
        ("protocol", True),
        ("tls", False),
        ("blocked_address", False),
    ],
)
def test_what_keeps_a_request_from_an_answer_has_its_meaning(code: str, again: bool) -> None:
    found = outcome_of(Reply(code, sent=False, seconds=1), NOW)
    assert (found.code, found.ok, found.again) == (code, False, again)


def test_the_receiver_may_end_a_message_or_all() -> None:
    assert outcome_of(answer(500, webhook_delivery="abort-message"), NOW).again is False
    ended = outcome_of(answer(400, webhook_delivery="Disable"), NOW)
    assert (ended.code, ended.disables) == ("aborted", Reason.RECEIVER)
    assert outcome_of(answer(200, webhook_delivery="disable"), NOW).ok is True
    assert outcome_of(answer(410), NOW).disables is Reason.GONE


@pytest.mark.parametrize(
    ("failures", "spread", "asked", "wait"),
    [
        (0, 0.0, None, 30),
        (0, 0.5, None, 45),
        (1, 0.0, None, 300),
        (1, 0.5, None, 450),
        (7, 0.0, None, 300),
        (0, 0.0, 10.0, 30),
        (0, 0.0, 100.0, 100),
        (0, 0.0, 1e9, 900),
        (0, 0.5, 1e9, 915),
    ],
)
def test_waits(failures: int, spread: float, asked: float | None, wait: float) -> None:
    assert wait_before_next(failures, spread, asked) == wait


def test_an_endpoint_may_have_waits_of_its_own() -> None:
    assert wait_before_next(0, 0, None, [5, 10]) == 5
    assert wait_before_next(1, 0, None, [5]) == 5


@pytest.mark.parametrize(
    ("failures", "failing", "silent", "given_up"),
    [(10, 24, 72, True), (9, 24, 72, False), (10, 23, 72, False), (10, 24, 71, False)],
)
def test_it_takes_all_three_to_give_up(
    failures: int, failing: float, silent: float, given_up: bool
) -> None:
    record = Record(failures, NOW - timedelta(hours=failing), NOW - timedelta(hours=silent))
    expected = (EndpointState.DISABLED, Reason.SUSTAINED) if given_up else ("failing", None)
    assert after_final_failure(record, NOW, None) == expected


def test_what_the_receiver_asks_for_is_done_at_once() -> None:
    record = Record(1, NOW, NOW)
    assert after_final_failure(record, NOW, Reason.GONE) == (EndpointState.DISABLED, Reason.GONE)


def test_lanes() -> None:
    assert is_slow("ok", 2.1)
    assert is_slow("timeout", 1)
    assert not is_slow("connect", 0.1)
    assert is_quick("ok", 2.0)
    assert not is_quick("http_500", 0.1)
    assert not is_quick("ok", 2.1)


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_event_has_an_example_that_fits_its_schema(name: str) -> None:
    one = CATALOGUE[name]
    assert set(one.example) == set(one.schema["required"]) == set(one.schema["properties"])
    assert one.meaning.endswith(".")
    told = json.loads(bodies.written("msg_1", name, NOW, one.example))
    assert told["data"] == one.example


def test_plain_successes_are_told_only_to_who_names_them() -> None:
    assert not is_subscribed(["*"], OPT_IN)
    assert is_subscribed([OPT_IN], OPT_IN)
    assert is_subscribed(["*"], "job.dead")
    assert not is_subscribed(["job.dead"], "job.resolved")
    assert set(SUBSCRIBABLE) == {*CATALOGUE, "*"}


def test_ids_sort_by_time_and_have_no_dot() -> None:
    """W-08."""
    ids = [bodies.new_id() for _ in range(100)]
    assert all(len(one) == 30 and "." not in one and one.startswith("msg_") for one in ids)
    assert len(set(ids)) == 100


def test_a_body_is_utf8_and_hides_what_looks_like_a_secret() -> None:
    body = bodies.written("msg_1", "job.dead", NOW, {"message": "Zoë 🚀", "password": "hunter2"})
    told = json.loads(body)
    assert told["data"]["message"] == "Zoë 🚀"
    assert "hunter2" not in body.decode()
    assert told["timestamp"] == "2026-11-30T00:00:00.000Z"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "elsewhere"},
        {"webhook-signature": "v1,x"},
        {"Content-Length": "1"},
        {"Transfer-Encoding": "chunked"},
        {"connection": "keep-alive"},
        {"x-one": "a\r\nx-two: b"},
        {"x one": "a"},
        {"x-one": "ü"},
        {"x-one": ""},
        {"x-one": "a", "X-One": "b"},
        {f"x-{n}": "a" for n in range(11)},
    ],
)
def test_headers_that_are_not_the_tenants_to_set(headers: dict[str, str]) -> None:
    """W-90."""
    with pytest.raises(HeadersRefused):
        check_headers(headers)


def test_other_headers_are() -> None:
    check_headers({"Authorization": "Bearer abc", "X-Tenant": "acme 7"})
