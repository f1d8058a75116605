"""The API as it is deployed: gunicorn with several processes, and clients that come at once."""

from __future__ import annotations

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
