"""A request with a key is answered once, and that answer is repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections, transaction

from jobs.models import Job
from tests.integration.api.conftest import Caller
from workspaces.models import IdempotencyRecord, Workspace

Callers = Callable[..., Caller]
ORDER = {"kind": "payments.charge", "params": {"order_id": "o-1", "cents": 4200}}
KEY = "order-one"


def code_of(response: Any) -> str:
    return str(json.loads(response.content)["code"])


@pytest.mark.sqlite
def test_a_repetition_gets_the_same_bytes_and_makes_nothing(caller: Callers) -> None:
    me = caller()

    first = me.post("jobs/", ORDER, idempotency_key=KEY)
    again = me.post("jobs/", ORDER, idempotency_key=f'"{KEY}"')

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert first["Location"] == again["Location"]
    assert (first["Idempotent-Replayed"], again["Idempotent-Replayed"]) == ("false", "true")
    assert first["Idempotency-Key"] == again["Idempotency-Key"] == f'"{KEY}"'
    assert first["X-Request-ID"] != again["X-Request-ID"]
    job = Job.objects.get()
    assert job.key == f"http:{me.account_id}:{KEY}"
    record = IdempotencyRecord.objects.get()
    assert (record.job_id, record.replays) == (job.pk, 1)
    assert record.last_request_id == again["X-Request-ID"]


@pytest.mark.sqlite
def test_the_same_key_with_another_request_is_refused(caller: Callers) -> None:
    me = caller()
    me.post("jobs/", ORDER, idempotency_key=KEY)

    other = me.post("jobs/", {**ORDER, "key": "mine"}, idempotency_key=KEY)

    assert (other.status_code, code_of(other)) == (422, "idempotency_key_reused")
    assert Job.objects.count() == 1


@pytest.mark.sqlite
def test_wrong_input_does_not_use_the_key_up(caller: Callers) -> None:
    me = caller()

    wrong = me.post("jobs/", {"params": {}}, idempotency_key=KEY)
    right = me.post("jobs/", ORDER, idempotency_key=KEY)

    assert (wrong.status_code, code_of(wrong)) == (422, "input_invalid")
    assert right.status_code == 201


@pytest.mark.sqlite
def test_sixty_four_first_requests_make_one_job(caller: Callers, acme: Workspace) -> None:
    me = caller()

    def send(_n: int) -> int:
        try:
            return int(me.post("jobs/", ORDER, idempotency_key=KEY).status_code)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(send, range(64)))

    assert set(statuses) <= {201, 409}
    assert statuses.count(201) >= 1
    assert Job.objects.filter(workspace=acme).count() == 1


def test_a_key_that_is_being_answered_is_waited_for_and_then_told(caller: Callers) -> None:
    me = caller()
    me.post("jobs/", ORDER, idempotency_key="warm-up-key")

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO workspaces_idempotencyrecord (workspace_id, principal, key, fingerprint,"
            " method, path, headers, body, request_id, last_request_id, replays, created_at,"
            " expires_at) SELECT workspace_id, principal, %s, fingerprint, method, path, headers,"
            " body, request_id, '', 0, created_at, expires_at FROM workspaces_idempotencyrecord",
            [KEY],
        )
        with ThreadPoolExecutor(1) as pool:
            waited = pool.submit(sent_and_closed, me).result()

    assert (waited.status_code, code_of(waited)) == (409, "idempotency_in_progress")
    assert int(waited["Retry-After"]) >= 1
    assert json.loads(waited.content)["retry"] == "same_key"


def sent_and_closed(me: Caller) -> Any:
    try:
        return me.post("jobs/", ORDER, idempotency_key=KEY)
    finally:
        connections.close_all()
