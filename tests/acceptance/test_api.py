"""The API as it is deployed: gunicorn with several processes, and clients that come at once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.acceptance.an_api import ORDER, Api, read_to_the_end, running_api
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("var")) as api:
        yield api


def test_sixty_four_with_one_key_at_once_in_several_processes_make_one_job(api: Api) -> None:
    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda _n: api.post("at-once-1"), range(64)))
    made = [answer for answer in answers if answer.status_code == 201]
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert Counter(answer.headers["Idempotent-Replayed"] for answer in made)["false"] == 1
    assert len({answer.content for answer in made}) == 1
    assert api.jobs(":at-once-1") == 1


def test_eight_keys_for_one_intent_make_one_job_and_each_is_told_its_own_again(api: Api) -> None:
    intent = {**ORDER, "key": "one-intent"}
    keys = [f"one-of-eight-{n}" for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda key: api.post(key, intent), keys))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 7}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert api.jobs("one-intent") == 1
    again = [api.post(key, intent) for key in keys]
    assert [answer.content for answer in again] == [answer.content for answer in answers]
    assert {answer.headers["Idempotent-Replayed"] for answer in again} == {"true"}


def test_who_hung_up_gets_the_answer_when_they_come_back(api: Api) -> None:
    api.raw("Idempotency-Key: hung-up-1").close()
    wait_until(lambda: api.records("hung-up-1") == 1, 30, "the request was answered")

    again = api.post("hung-up-1")

    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")
    assert api.jobs(":hung-up-1") == 1


@pytest.mark.parametrize(
    "headers",
    [
        ("Idempotency-Key: two-lines-1", "Idempotency-Key: two-lines-2"),
        ("Idempotency-Key: two-lines-1, two-lines-2",),
        ("Idempotency-Key: two-lines-1;a=b",),
        ("Idempotency-Key: ",),
    ],
    ids=["two lines", "a list", "parameters", "nothing"],
)
def test_what_is_no_single_key_on_the_wire_is_refused(api: Api, headers: tuple[str, ...]) -> None:
    with api.raw(*headers) as connection:
        answer = read_to_the_end(connection)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"idempotency_key_invalid"' in answer
    assert api.records("two-lines-1") == 0


def test_a_body_whose_length_is_not_told_is_refused_and_not_taken_for_none(api: Api) -> None:
    """The interface between server and application gives such a body no end, so none is read."""
    with api.raw("Transfer-Encoding: chunked", "Idempotency-Key: chunked-1", told=False) as sent:
        answer = read_to_the_end(sent)
    assert answer.startswith(b"HTTP/1.1 411"), answer
    assert b'"length_required"' in answer
    assert api.records("chunked-1") == 0


MOVED = "SCRIPT_NAME: /elsewhere", "SCRIPT_NAME: /api", "script_name: /", "PATH_INFO: /elsewhere"
HTTP = "GET /api/v1/workspaces/ HTTP/1.1\r\nHost: localhost\r\n"
NO_REQUEST = {
    "not_http": (
        "GET /api/v1/workspaces/ HTTP/9\r\n",
        "GET /api/v1/workspaces/\r\n",
        "get /api/v1/workspaces/ HTTP/1.1\r\n",
        "GET api/v1/workspaces/ HTTP/1.1\r\n",
        "GET http://[::1/ HTTP/1.1\r\n",
        "GET /\xff HTTP/1.1\r\n",
        "GET /\0 HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n",
        "GET / HTTP/1.1\nHost: localhost\n",
        "\r\n",
        f"{HTTP}Host: localhost\r\n",
        f"{HTTP}Content-Type: a/b\r\nContent-Type: b/a\r\n",
        f"{HTTP}Authorization Bearer fdr_in-the-wrong-place\r\n",
        f"{HTTP}Authorization : Bearer fdr_in-the-wrong-place\r\n",
        f"{HTTP}X: a\r\n b\r\n",
        f"{HTTP}X: \x01\r\n",
        f"{HTTP}X-Forwarded-Proto: https\r\nX-Forwarded-Proto: http\r\n",
        f"{HTTP}Content-Length: 1\r\nContent-Length: 1\r\n",
        f"{HTTP}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        f"{HTTP}Content-Length: -1\r\n",
        f"{HTTP}Content-Length: \xb2\r\n",
        f"{HTTP}Content-Length: {'9' * 5000}\r\n",
        f"{HTTP}Transfer-Encoding: identity\r\n",
    ),
    "address_too_long": (f"GET /{'a' * 5000} HTTP/1.1\r\n",),
    "headers_too_large": (f"{HTTP}X: {'a' * 9000}\r\n", HTTP + "X: a\r\n" * 101),
    "expectation_failed": (f"{HTTP}Expect: a-miracle\r\n",),
    "no_such_page": (
        "GET //api/v1/workspaces/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
    ),
    "length_required": (f"{HTTP}Transfer-Encoding: telepathy\r\n",),
}


@pytest.mark.parametrize("header", MOVED)
def test_no_header_says_where_the_site_is_mounted(api: Api, header: str) -> None:
    """Gunicorn believes it of an address that it trusts, which the proxy of a deployment has."""
    with api.raw(header, f"Idempotency-Key: moved-away-{MOVED.index(header)}") as connection:
        answer = read_to_the_end(connection)
    assert answer.startswith(b"HTTP/1.1 201"), answer


@pytest.mark.parametrize(
    "header", ["X-Forwarded-Ssl: off", "X-Forwarded-Protocol: http", "X-Forwarded-Ssl: on"]
)
def test_one_header_says_whether_the_client_spoke_tls(api: Api, header: str) -> None:
    """What else a client sends is no contradiction to what its proxy says."""
    sent = f"{HTTP}X-Forwarded-Proto: https\r\n{header}\r\nConnection: close\r\n\r\n"
    assert b'"https://localhost/api/problems/#not_signed_in"' in api.wire(sent.encode())
    alone = f"{HTTP}{header}\r\nConnection: close\r\n\r\n"
    assert b'"http://localhost/api/problems/#not_signed_in"' in api.wire(alone.encode())


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        pytest.param(code, sent, id=f"{code}-{number}")
        for code, group in NO_REQUEST.items()
        for number, sent in enumerate(group)
    ],
)
def test_what_never_becomes_a_request_is_a_problem_too(api: Api, code: str, sent: str) -> None:
    head, _, body = api.wire(f"{sent}\r\n".encode("latin-1")).partition(b"\r\n\r\n")
    problem = json.loads(body)
    assert problem["code"] == code
    assert head.startswith(b"HTTP/1.1 %d " % problem["status"])
    assert problem["status"] < 500
    assert b"\r\nContent-Type: application/problem+json" in head
    assert f"\r\nX-Request-ID: {problem['request_id']}".encode() in head
    assert b"in-the-wrong-place" not in body


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "body", ["zz\r\nabc\r\n", "-1\r\n", "3\r\nabcdef", "0\r\nHost: a\r\n\r\n", "0\r\n\r\n"]
)
def test_a_body_in_chunks_is_answered_once_however_it_ends(
    api: Api, method: str, body: str
) -> None:
    """On a connection that is kept, a second answer would be taken for that to the next request."""
    sent = f"{method}{HTTP[3:]}Transfer-Encoding: chunked\r\n\r\n{body}"
    answer = api.wire(sent.encode())
    assert len(re.findall(rb"HTTP/1.1 \d", answer)) == 1
    assert b"\r\nConnection: close" in answer
