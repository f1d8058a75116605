"""Who calls over HTTP, and how often one may be wrong about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache, caches
from django.core.cache.backends.redis import RedisCache
from django.test import Client

from tests.integration.api.conftest import Caller, problem
from workspaces import service_accounts, tokens
from workspaces.actors import SYSTEM
from workspaces.http.authentication import FAILURES, WINDOW, counter_of
from workspaces.models import Token

pytestmark = pytest.mark.sqlite
Callers = Callable[..., Caller]
JOBS = "/api/v1/workspaces/acme/jobs/"


def asked(authorization: str | None, **more: Any) -> tuple[int, str]:
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = Client().get(JOBS, headers=headers, **more)
    return answer.status_code, problem(answer)["code"]


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        (None, "not_signed_in"),
        ("", "not_signed_in"),
        ("Bearer", "token_invalid"),
        ("Bearer ", "token_invalid"),
        ("Bearer nonsense", "token_invalid"),
        ("Bearer \xff\xfe", "token_invalid"),
        ("Basic YW5hOnBhc3N3b3Jk", "token_invalid"),
        ("fdr_nonsense", "token_invalid"),
        (f"Bearer {'x' * 5000}", "token_invalid"),
    ],
    ids=repr,
)
@pytest.mark.usefixtures("acme")
def test_without_a_good_token_nobody_comes_in(authorization: str | None, code: str) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = Client().get(JOBS, headers=headers)
    assert (answer.status_code, problem(answer)["code"]) == (401, code)
    assert answer["WWW-Authenticate"] == 'Bearer realm="firedoor"'


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_the_scheme_is_read_as_it_comes(caller: Callers, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} {caller().secret} "}
    assert Client().get(JOBS, headers=headers).status_code == 200


def test_a_session_of_the_console_opens_nothing_here(caller: Callers, admin_client: Client) -> None:
    caller()
    assert admin_client.get(JOBS).status_code == 401


@pytest.mark.parametrize("end", ["expired", "revoked", "disabled"])
def test_what_ended_says_no_more_than_what_never_was(caller: Callers, end: str) -> None:
    me = caller()
    if end == "expired":
        Token.objects.update(expires_at="2020-01-01T00:00:00Z")
    elif end == "revoked":
        tokens.revoke(me.token.pk, actor=SYSTEM, reason="over")
    else:
        service_accounts.disable(me.account.pk, actor=SYSTEM, reason="over")
    ended = me.get("jobs/")
    unknown = Client().get(JOBS, headers={"Authorization": f"Bearer {tokens._new_text()}"})
    told = [{**problem(a), "instance": "", "request_id": ""} for a in (ended, unknown)]
    assert told[0] == told[1]
    assert told[0]["code"] == "token_invalid"


def test_after_twenty_failures_an_address_is_told_to_wait_but_good_tokens_pass(
    caller: Callers,
) -> None:
    me = caller()
    told = [asked("Bearer nonsense") for _ in range(FAILURES + 2)]
    good = me.get("jobs/")
    elsewhere = asked("Bearer nonsense", REMOTE_ADDR="192.0.2.7")
    cache.delete(counter_of("192.0.2.7"))

    assert told[:FAILURES] == [(401, "token_invalid")] * FAILURES
    assert told[FAILURES:] == [(429, "too_many_failures")] * 2
    assert good.status_code == 200
    assert elsewhere == (401, "token_invalid")

    cache.delete(counter_of("127.0.0.1"))  # as the window's end does
    assert asked("Bearer nonsense") == (401, "token_invalid")


def test_whoever_is_told_to_wait_is_told_for_how_long(caller: Callers) -> None:
    caller()
    cache.set(counter_of("127.0.0.1"), FAILURES, WINDOW)
    answer = Client().get(JOBS, headers={"Authorization": "Bearer nonsense"})
    assert (answer.status_code, answer["Retry-After"]) == (429, str(WINDOW))
    assert problem(answer)["retry"] == "same_key"


def test_a_good_token_does_not_count_and_none_at_all_does_not_either(caller: Callers) -> None:
    me = caller()
    cache.set(counter_of("127.0.0.1"), FAILURES, WINDOW)
    for _ in range(3):
        assert me.get("jobs/").status_code == 200
        assert asked(None) == (401, "not_signed_in")
    assert cache.get(counter_of("127.0.0.1")) == FAILURES


def test_the_count_ends_by_itself() -> None:
    asked("Bearer nonsense")
    backend: Any = caches["default"]
    name = backend.make_and_validate_key(counter_of("127.0.0.1"))
    if isinstance(backend, RedisCache):
        assert 0 < backend._cache.get_client().ttl(name) <= WINDOW
    else:
        assert backend._expire_info[name] is not None


def test_a_cache_out_of_reach_changes_no_answer(
    caller: Callers, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    me = caller()
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "redis://someone:password-canary@127.0.0.1:1/0",
        }
    }
    told = [asked("Bearer nonsense") for _ in range(FAILURES + 2)]
    good = me.get("jobs/").status_code
    del settings.CACHES

    assert set(told) == {(401, "token_invalid")}
    assert good == 200
    assert "api.failures_not_counted" in caplog.text
    assert "password-canary" not in caplog.text


def test_no_log_line_has_the_token(caller: Callers, caplog: pytest.LogCaptureFixture) -> None:
    me = caller()
    caplog.set_level(0)
    me.get("jobs/")
    me.get("nonsense/")
    me.post("jobs/", b"{")
    tokens.revoke(me.token.pk, actor=SYSTEM, reason="over")
    me.get("jobs/")
    lines = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert lines
    assert me.secret not in lines
    assert me.secret.removeprefix("fdr_") not in lines
