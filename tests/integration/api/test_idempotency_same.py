"""Which requests are the same, by whom, and which keys are keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.utils import timezone

from tests.integration.api.conftest import Caller, problem
from tests.integration.api.probe import Probe
from workspaces import closing, service_accounts, tokens
from workspaces.actors import SYSTEM
from workspaces.http import parsing
from workspaces.http.authentication import FAILURES, WINDOW, counter_of
from workspaces.models import IdempotencyRecord, ServiceAccount, Workspace
from workspaces.permissions import Role

pytestmark = pytest.mark.sqlite
Callers = Callable[..., Caller]
KEY = {"idempotency_key": "the-key-1"}
BODY = b'{"name": "x", "n": [1, {"a": 1.50, "b": null}]}'


def is_replay(answer: Any) -> bool:
    assert answer.status_code == 201, answer.content
    return bool(answer["Idempotent-Replayed"] == "true")


# --- the request ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("POST", "probe/1/?a=1&b=2", b'{"n":[1,{"b":null,"a":1.50}],"name":"\\u0078"}', {}),
        ("POST", "probe/1/?b=2&a=1", BODY, {}),
        ("POST", "probe/1/?a=1&b=2", BODY, {"content_type": "application/json; charset=utf-8"}),
        ("POST", "probe/1/?a=1&b=2", BODY, {"content_type": "Application/JSON"}),
        ("POST", "probe/1/?a=1&b=2", BODY, {"accept": "application/*", "user_agent": "other/2"}),
        ("POST", "probe/1/?a=1&b=2", BODY, {"idempotency_key": '"the-key-1"'}),
        ("POST", "probe/1/?a=1&b=2", BODY, {"idempotency_key": " the-key-1 "}),
    ],
    ids=["spaces and order", "query", "charset", "case", "accept", "quotes", "blanks"],
)
def test_another_way_to_say_the_same_gets_the_same_answer(
    caller: Callers, probe: type[Probe], method: str, path: str, body: bytes, headers: Any
) -> None:
    me = caller()
    first = me.send("POST", "probe/1/?a=1&b=2", BODY, **KEY)
    again = me.send(method, path, body, **{**KEY, **headers})
    assert (is_replay(first), is_replay(again)) == (False, True)
    assert again.content == first.content
    assert len(probe.calls) == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "probe/2/?a=1", BODY),
        ("POST", "probe/1/part/?a=1", BODY),
        ("POST", "probe/?a=1", BODY),
        ("DELETE", "probe/1/?a=1", BODY),
        ("POST", "probe/1/?a=2", BODY),
        ("POST", "probe/1/", BODY),
        ("POST", "probe/1/?a=1", BODY.replace(b"1.50", b"1.5")),
        ("POST", "probe/1/?a=1", BODY.replace(b"[1,", b"[1.0,")),
        ("POST", "probe/1/?a=1", BODY.replace(b"null", b"false")),
        ("POST", "probe/1/?a=1", b""),
    ],
    ids=[
        "id",
        "longer",
        "shorter",
        "method",
        "query",
        "no query",
        "digits",
        "1.0",
        "value",
        "empty",
    ],
)
def test_another_request_under_the_same_key_is_refused(
    caller: Callers, probe: type[Probe], method: str, path: str, body: bytes
) -> None:
    me = caller()
    me.send("POST", "probe/1/?a=1", BODY, **KEY)

    other = me.send(method, path, body, **KEY)

    told = problem(other)
    assert (other.status_code, told["code"], told["retry"]) == (
        422,
        "idempotency_key_reused",
        "new_key",
    )
    assert told["original"]["method"] == "POST"
    assert told["original"]["path"] == "/api/v1/workspaces/acme/probe/1/"
    assert len(probe.calls) == 1
    assert is_replay(me.send("POST", "probe/1/?a=1", BODY, **KEY))


@pytest.mark.parametrize("number", [2**53, 10**20])
def test_large_integers_that_a_float_would_mix_up_are_told_apart(
    caller: Callers, probe: type[Probe], number: int
) -> None:
    me = caller()
    me.send("POST", "probe/", f'{{"n": {number}}}', **KEY)
    assert me.send("POST", "probe/", f'{{"n": {number + 1}}}', **KEY).status_code == 422


def test_a_record_is_compared_in_the_way_it_was_made(
    caller: Callers, probe: type[Probe], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deploy brings a new way to make fingerprints; the old one stays for a day."""
    me = caller()
    me.send("POST", "probe/", BODY, **KEY)
    monkeypatch.setitem(parsing._ALGORITHMS, "fp2", lambda sent: f"{len(sent.body)}")
    monkeypatch.setattr(parsing.Sent.fingerprint, "__defaults__", ("fp2",))

    old = me.send("POST", "probe/", BODY, **KEY)
    new = me.send("POST", "probe/", b'{"name": "y"}', idempotency_key="the-key-2")
    monkeypatch.undo()
    unknown = me.send("POST", "probe/", b'{"name": "y"}', idempotency_key="the-key-2")

    assert (is_replay(old), is_replay(new)) == (True, False)
    assert (unknown.status_code, problem(unknown)["retry"]) == (409, "same_key")
    assert len(probe.calls) == 2


# --- the key -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        "",
        '""',
        "seven77",
        "x" * 256,
        "one-key-1, two-key-2",
        '"the-key-1"; a=1',
        '"the-key-1',
        "the key 1",
        "'; DROP TABLE x; --",
        "schlüssel-1",
        "\N{KEY}\N{KEY}\N{KEY}-key-1",
        "the-key-1\x00",
        "the-key-1\r\nX-Other: 1",
        "the-key\\1",
        "?1-boolean",
        ":YmFzZTY0:,",
    ],
)
def test_what_is_no_key_is_refused_and_leaves_nothing(
    caller: Callers, probe: type[Probe], key: str
) -> None:
    answer = caller().send("POST", "probe/", BODY, idempotency_key=key)
    assert (answer.status_code, problem(answer)["code"]) == (400, "idempotency_key_invalid")
    assert "Idempotency-Key" not in answer
    assert not IdempotencyRecord.objects.exists()
    assert probe.calls == []


@pytest.mark.parametrize("key", ["eightlen", "x" * 255, "8e03978e-40d5-43dd-bc93-6894a57f9324"])
def test_every_key_of_8_to_255_plain_characters_is_one(
    caller: Callers, probe: type[Probe], key: str
) -> None:
    answer = caller().send("POST", "probe/", BODY, idempotency_key=key)
    assert (answer.status_code, answer["Idempotency-Key"]) == (201, f'"{key}"')


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_key_on_a_read_is_ignored(caller: Callers, probe: type[Probe], method: str) -> None:
    for key in ("the-key-1", "no key"):
        answer = caller(name=key).send(method, "probe/", b"", idempotency_key=key)
        assert answer.status_code in (200, 405)
        assert "Idempotency-Key" not in answer
    assert not IdempotencyRecord.objects.exists()


def test_who_may_not_do_it_is_told_so_before_the_key_is_looked_at(
    caller: Callers, probe: type[Probe]
) -> None:
    vic = caller(Role.VIEWER)
    assert vic.send("POST", "probe/", BODY, idempotency_key="no key").status_code == 403


def test_a_key_is_echoed_on_refusals_too(caller: Callers, probe: type[Probe]) -> None:
    vic = caller(Role.VIEWER)
    assert vic.send("POST", "probe/", BODY, **KEY)["Idempotency-Key"] == '"the-key-1"'
    assert vic.send("POST", "probe/", b"{", **KEY)["Idempotency-Key"] == '"the-key-1"'


def test_without_its_slash_an_address_is_not_found_and_the_key_is_free(
    caller: Callers, probe: type[Probe]
) -> None:
    me = caller()
    assert me.send("POST", "probe", BODY, **KEY).status_code == 404
    assert not is_replay(me.send("POST", "probe/", BODY, **KEY))


# --- who -----------------------------------------------------------------------------------------


def test_somebody_elses_key_is_nothing_to_me(caller: Callers, probe: type[Probe]) -> None:
    """Neither the answer nor any difference tells that another account has used the key."""
    one, other = caller(name="one"), caller(name="other")
    mine = one.send("POST", "probe/", b'{"name": "a"}', **KEY)
    theirs = other.send("POST", "probe/", b'{"name": "b"}', **KEY)
    assert (is_replay(mine), is_replay(theirs)) == (False, False)
    assert theirs.json() == {"made": "b"}
    assert {n: v for n, v in theirs.items() if n != "X-Request-ID"} == {
        n: v for n, v in mine.items() if n != "X-Request-ID"
    }


def test_each_gets_their_own_answer_again(caller: Callers, probe: type[Probe]) -> None:
    callers = [caller(name="one"), caller(name="other")]
    first = [me.post("probe/", {"name": f"of-{n}"}, **KEY) for n, me in enumerate(callers)]
    again = [me.post("probe/", {"name": f"of-{n}"}, **KEY) for n, me in enumerate(callers)]
    assert [is_replay(answer) for answer in (*first, *again)] == [False, False, True, True]
    assert [answer.content for answer in again] == [answer.content for answer in first]


def test_a_key_is_another_in_another_workspace(
    caller: Callers, probe: type[Probe], rival: Workspace
) -> None:
    me = caller()
    ServiceAccount.objects.filter(pk=me.account.pk).update(workspace=None)
    places = ("probe/", b'{"name": "a"}'), ("/api/v1/workspaces/rival/probe/", b'{"name": "b"}')
    first = [me.send("POST", path, body, **KEY) for path, body in places]
    again = [me.send("POST", path, body, **KEY) for path, body in places]
    assert [is_replay(answer) for answer in (*first, *again)] == [False, False, True, True]
    assert [answer.content for answer in again] == [answer.content for answer in first]


def test_a_new_token_of_the_account_repeats_what_the_old_one_began(
    caller: Callers, probe: type[Probe]
) -> None:
    me = caller()
    first = me.send("POST", "probe/", BODY, **KEY)
    _token, me.secret = tokens.rotate(me.token.pk, actor=SYSTEM)
    again = me.send("POST", "probe/", BODY, **KEY)
    assert is_replay(again)
    assert again.content == first.content


def test_who_lost_the_right_is_not_told_the_answer_again(
    caller: Callers, probe: type[Probe]
) -> None:
    me = caller()
    me.send("POST", "probe/", BODY, **KEY)
    ServiceAccount.objects.filter(pk=me.account.pk).update(role=Role.VIEWER)
    answer = me.send("POST", "probe/", BODY, **KEY)
    assert (answer.status_code, problem(answer)["code"]) == (403, "not_allowed")
    assert "Idempotent-Replayed" not in answer
    assert IdempotencyRecord.objects.get().replays == 0


@pytest.mark.parametrize("end", ["disabled", "revoked", "closed"])
def test_who_may_not_come_in_any_more_is_not_told_the_answer_again(
    caller: Callers, probe: type[Probe], end: str
) -> None:
    me = caller()
    me.send("POST", "probe/", BODY, **KEY)
    if end == "disabled":
        service_accounts.disable(me.account.pk, actor=SYSTEM, reason="over")
    elif end == "revoked":
        tokens.revoke(me.token.pk, actor=SYSTEM, reason="over")
    else:
        closing.close(me.workspace.pk, actor=SYSTEM, reason="over")
    answer = me.send("POST", "probe/", BODY, **KEY)
    assert (answer.status_code, problem(answer)["code"]) == (401, "token_invalid")
    assert IdempotencyRecord.objects.get().replays == 0


def test_without_a_token_a_key_leaves_nothing(caller: Callers, probe: type[Probe]) -> None:
    me = caller()
    good, me.secret = me.secret, "fdr_nonsense"
    refused = me.send("POST", "probe/", BODY, **KEY)
    nothing = me.client.post(
        me.url("probe/"), BODY, "application/json", headers={"Idempotency-Key": "the-key-1"}
    )
    left = IdempotencyRecord.objects.count()
    me.secret = good

    assert (refused.status_code, nothing.status_code, left) == (401, 401, 0)
    assert not is_replay(me.send("POST", "probe/", BODY, **KEY))
    assert Group.objects.count() == 1


def test_who_was_told_to_wait_may_use_the_key_afterwards(
    caller: Callers, probe: type[Probe]
) -> None:
    me = caller()
    good, me.secret = me.secret, "fdr_nonsense"
    cache.set(counter_of("127.0.0.1"), FAILURES, WINDOW)
    refused = me.send("POST", "probe/", BODY, **KEY)
    left = IdempotencyRecord.objects.count()
    me.secret = good
    first, again = (me.send("POST", "probe/", BODY, **KEY) for _ in range(2))

    assert (refused.status_code, problem(refused)["retry"], left) == (429, "same_key", 0)
    assert (is_replay(first), is_replay(again)) == (False, True)
    assert len(probe.calls) == 1


def test_the_clock_of_the_web_process_plays_no_part(
    caller: Callers, probe: type[Probe], monkeypatch: pytest.MonkeyPatch
) -> None:
    me = caller()
    me.send("POST", "probe/", BODY, **KEY)
    far = timezone.now().replace(year=2077)
    monkeypatch.setattr("django.utils.timezone.now", lambda: far)
    assert is_replay(me.send("POST", "probe/", BODY, **KEY))
