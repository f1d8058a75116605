"""Whatever cuts a request off, its Idempotency-Key still stands for one job."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Thread
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.acceptance.an_api import ORDER, Api, read_to_the_end, running_api
from tests.servers import Server, valkey
from tests.servers.process import family
from tests.waiting import wait_until

_BODY = json.dumps(ORDER).encode()
INSIDE = (b"Traceback", b"psycopg", b"SELECT", b"workspaces_", b"File ", b"socket", b"/tmp/")


@pytest.fixture(scope="module")
def broker() -> Iterator[Server]:
    with valkey() as server:
        yield server


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, broker: Server) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("var"), REDIS_URL=broker.url) as api:
        yield api


@contextmanager
def impatient_edge(api: Api, gives_up: Event) -> Iterator[str]:
    """A proxy for one request: told to give up, it answers 503 by itself and never looks back."""
    where = urlsplit(api.address)

    def serve(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client, socket.create_connection((where.hostname, where.port)) as behind:
            behind.sendall(whole_request(client))
            assert gives_up.wait(60)
            client.sendall(b"HTTP/1.1 503 Too slow\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve, args=(listener,))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(60)


def whole_request(client: socket.socket) -> bytes:
    request = b""
    while True:
        head, end, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if end and length and len(body) >= int(length[1]):
            return request
        received = client.recv(65536)
        assert received
        request += received


def made_once(api: Api, key: str, *, replayed: bool) -> None:
    """The key is sent again, and there is one job of it."""
    again = api.post(key)
    assert again.status_code == 201, again.content
    assert again.headers["Idempotent-Replayed"] == ("true" if replayed else "false")
    assert (api.jobs(f":{key}"), api.records(key)) == (1, 1)


def test_who_hangs_up_while_the_job_is_made_finds_it_made(api: Api) -> None:
    with api.stalled("hangs-up-1"):
        connection = api.raw("Idempotency-Key: hangs-up-1")
        api.wait_until_stalled()
        connection.close()
    wait_until(lambda: api.records("hangs-up-1") == 1, 30, "the work was finished")
    made_once(api, "hangs-up-1", replayed=True)


def test_an_edge_that_answers_for_us_costs_no_second_job(api: Api) -> None:
    """Its 503 has no request id of ours, so the client cannot know whether we were reached."""
    gives_up = Event()
    with api.stalled("too-slow-1"):
        with impatient_edge(api, gives_up) as address, ThreadPoolExecutor(1) as pool:
            asked = pool.submit(api.post, "too-slow-1", address=address)
            api.wait_until_stalled()
            gives_up.set()
            from_the_edge = asked.result()
        meanwhile = api.post("too-slow-1")
    assert from_the_edge.status_code == 503
    assert "X-Request-ID" not in from_the_edge.headers
    assert (meanwhile.status_code, meanwhile.json()["code"]) == (409, "idempotency_in_progress")
    wait_until(lambda: api.records("too-slow-1") == 1, 30, "the work was finished")
    made_once(api, "too-slow-1", replayed=True)


def test_a_server_killed_between_the_job_and_the_answer_leaves_neither(api: Api) -> None:
    with api.stalled("killed-1"):
        with api.raw("Idempotency-Key: killed-1") as connection:
            api.wait_until_stalled()
            for pid in family(api.pid)[1:]:
                os.kill(pid, signal.SIGKILL)
            try:
                answer = read_to_the_end(connection)
            except ConnectionResetError:
                answer = b""
    assert answer == b""
    wait_until(lambda: api.post("killed-1").status_code == 201, 30, "new processes serve")
    made_once(api, "killed-1", replayed=True)


def test_a_database_that_restarts_under_a_request_is_a_code_and_no_traceback(api: Api) -> None:
    with api.stalled("restart-1"):
        with api.raw("Idempotency-Key: restart-1") as connection:
            api.wait_until_stalled()
            api.database.stop()
            cut_off = read_to_the_end(connection)
        away = api.post("restart-1")
        reads = httpx2.get(
            f"{api.address}/api/v1/workspaces/acme/",
            headers={"Authorization": f"Bearer {api.token}"},
            trust_env=False,
            timeout=60,
        )
        api.database.start()
    assert cut_off.startswith(b"HTTP/1.1 503")
    assert b'"code": "unavailable"' in cut_off
    assert b"\r\nRetry-After: " in cut_off
    for answer in (away, reads):
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.json()["retry"] == "same_key"
        assert int(answer.headers["Retry-After"]) >= 1
    for told in (cut_off, away.content, reads.content):
        assert [word for word in INSIDE if word in told] == []
    made_once(api, "restart-1", replayed=False)


def test_half_a_body_is_no_request(api: Api) -> None:
    api.raw("Idempotency-Key: half-body-1", sent=20).close()
    with api.raw("Idempotency-Key: half-body-2", sent=20) as connection:
        connection.shutdown(socket.SHUT_WR)
        answer = read_to_the_end(connection)
    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert b'"malformed"' in answer
    for key in ("half-body-1", "half-body-2"):
        assert (api.jobs(f":{key}"), api.records(key)) == (0, 0)
        made_once(api, key, replayed=False)


@pytest.mark.parametrize("key", ["", "Idempotency-Key: too-short-1"], ids=["no key", "a key"])
def test_a_body_that_ends_early_is_none_even_where_it_could_be_read(api: Api, key: str) -> None:
    """What is missing might have been anything."""
    headers = [key] if key else []
    with api.raw(*headers, padding=1000) as connection:
        connection.shutdown(socket.SHUT_WR)
        answer = read_to_the_end(connection)
    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert b'"malformed"' in answer
    assert api.records("too-short-1") == 0


def test_bodies_that_come_slowly_are_waited_for_and_nobody_else_is(api: Api) -> None:
    slow = [api.raw(f"Idempotency-Key: slowly-{n}", sent=10) for n in range(3)]
    others = [api.post(f"quickly-{n}").status_code for n in range(12)]
    assert others == [201] * 12
    for number, connection in enumerate(slow):
        with connection:
            for one in _BODY[10:]:
                connection.sendall(bytes([one]))
            assert read_to_the_end(connection).startswith(b"HTTP/1.1 201")
        made_once(api, f"slowly-{number}", replayed=True)


def test_without_a_broker_the_job_is_accepted_all_the_same(api: Api, broker: Server) -> None:
    broker.kill()
    try:
        first = api.post("no-broker-1")
        wrong = httpx2.get(
            f"{api.address}/api/v1/workspaces/acme/jobs/",
            headers={"Authorization": "Bearer fdr_nonsense"},
            trust_env=False,
            timeout=60,
        )
    finally:
        broker.start()
    assert (first.status_code, first.json()["state"]) == (201, "queued")
    assert (wrong.status_code, wrong.json()["code"]) == (401, "token_invalid")
    made_once(api, "no-broker-1", replayed=True)
