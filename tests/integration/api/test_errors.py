"""Whatever goes wrong is a problem with a code, and tells nothing of the inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import Http404
from pytest_django.live_server_helper import LiveServer
from rest_framework import exceptions
from rest_framework.response import Response

from jobs.errors import NotRetryable
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.probe import Probe
from workspaces.audit import DONE
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import Role

Callers = Callable[..., Caller]
FORMAT = (415, "unsupported_media_type")
INSIDE = (
    "Traceback",
    "File ",
    "SELECT",
    "workspaces_",
    "psycopg",
    "sqlite3",
    "/work/",
    "127.0.0.1",
)


def told(response: Any) -> tuple[int, str]:
    body = problem(response)
    assert [word for word in INSIDE if word in response.content.decode()] == []
    return response.status_code, body["code"]


def refusals() -> list[AuditEvent]:
    return list(AuditEvent.objects.exclude(result=DONE).order_by("pk"))


def raising(error: Exception) -> Callable[[Probe], Any]:
    def act(_view: Probe) -> None:
        raise error

    return act


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "answer"),
    [
        ("POST", "probe/", b"{", {}, (400, "malformed")),
        ("POST", "probe/", b'{"a":1,"a":2}', {}, (400, "malformed")),
        ("POST", "probe/", b"[" * 100_000, {}, (400, "malformed")),
        ("POST", "probe/", b"[" * 900 + b"]" * 900, {}, (400, "malformed")),
        ("POST", "probe/", b'{"name":"\\u0000"}', {}, (400, "malformed")),
        ("POST", "probe/", b"a=1", {"content_type": "application/x-www-form-urlencoded"}, FORMAT),
        ("POST", "probe/", b"--x--", {"content_type": "multipart/form-data; boundary=x"}, FORMAT),
        ("POST", "probe/", b"{}", {"content_type": "text/plain"}, FORMAT),
        ("POST", "probe/", b'"' + b"x" * 3_000_000 + b'"', {}, (413, "body_too_large")),
        ("PUT", "probe/", b"{}", {}, (405, "method_not_allowed")),
        ("OPTIONS", "probe/", b"", {}, (405, "method_not_allowed")),
        ("GET", "probe/", b"", {"accept": "text/html"}, (406, "not_acceptable")),
        ("GET", f"probe/?{'a&' * 1001}", b"", {}, (400, "malformed")),
        ("POST", f"probe/?{'a&' * 1001}", b"{}", {}, (400, "malformed")),
        ("GET", f"/api/schema/?{'a&' * 1001}", b"", {}, (400, "malformed")),
        ("GET", "nonsense/", b"", {}, (404, "no_such_page")),
        ("POST", "probe", b"{}", {}, (404, "no_such_page")),
        ("GET", "/api/", b"", {}, (404, "no_such_page")),
        ("GET", "/api", b"", {}, (404, "no_such_page")),
        ("GET", "/api/v1/workspaces/globex/probe/", b"", {}, (404, "no_such_workspace")),
        ("GET", "probe/", b"", {"host": "evil.example.com"}, (400, "malformed")),
    ],
    ids=lambda value: None if isinstance(value, bytes | dict) else str(value)[:50],
)  # fmt: skip
def test_a_request_that_cannot_be_meant_is_told_so(
    caller: Callers,
    probe: type[Probe],
    method: str,
    path: str,
    body: bytes,
    headers: dict[str, str],
    answer: tuple[int, str],
) -> None:
    me = caller()
    for key in ({}, {"idempotency_key": "the-key-1"}):
        assert told(me.send(method, path, body, **headers, **key)) == answer
    assert probe.calls == []


@pytest.mark.sqlite
def test_a_method_that_is_not_taken_says_which_are(caller: Callers, probe: type[Probe]) -> None:
    answer = caller().send("PATCH", "probe/")
    assert set(answer["Allow"].split(", ")) == {"GET", "POST", "DELETE", "HEAD", "OPTIONS"}


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (RuntimeError("password=hunter2"), (500, "internal")),
        (KeyError("name"), (500, "internal")),
        (RecursionError(), (500, "internal")),
        (NotRetryable("Nothing was done: it is over."), (409, "not_retryable")),
        (exceptions.ValidationError({"a": ["Wrong."]}), (422, "input_invalid")),
        (exceptions.NotFound(), (404, "no_such_page")),
        (Http404("password=hunter2"), (404, "no_such_page")),
        (PermissionDenied("password=hunter2"), (403, "forbidden")),
        (exceptions.PermissionDenied("password=hunter2"), (403, "forbidden")),
    ],
    ids=repr,
)
def test_whatever_a_view_raises_is_a_problem_and_undone(
    caller: Callers, probe: type[Probe], error: Exception, answer: tuple[int, str]
) -> None:
    probe.does(raising(error))
    me = caller()
    for key in ({}, {"idempotency_key": "the-key-1"}):
        response = me.post("probe/", {}, **key)
        assert told(response) == answer
        assert "hunter2" not in response.content.decode()
    assert not Group.objects.exists()


@pytest.mark.sqlite
def test_a_fault_of_ours_is_logged_under_the_request_id(
    caller: Callers, probe: type[Probe], caplog: pytest.LogCaptureFixture
) -> None:
    probe.does(raising(RuntimeError("who would have thought")))
    me = caller()
    answer = me.post("probe/", {}, x_request_id="request-1")
    assert problem(answer)["request_id"] == answer["X-Request-ID"] == "request-1"
    (record,) = [record for record in caplog.records if record.message == "api.failed"]
    assert record.exc_info is not None
    assert me.secret not in caplog.text


@pytest.mark.sqlite
def test_a_missing_table_is_a_fault_of_ours_and_no_outage(
    caller: Callers, probe: type[Probe]
) -> None:
    """On SQLite this too is an OperationalError."""

    def act(_view: Probe) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM there_is_no_such_table")

    probe.does(act)
    assert told(caller().post("probe/", {})) == (500, "internal")


def test_a_connection_that_is_lost_at_work_is_an_outage_and_nothing_is_kept(
    caller: Callers, probe: type[Probe]
) -> None:
    probe.does(lambda _view: lose_the_connection())
    me = caller()

    lost = me.post("probe/", {}, idempotency_key="the-key-1")
    connection.close()
    probe.does(lambda _view: None)
    again = me.post("probe/", {}, idempotency_key="the-key-1")

    assert told(lost) == (503, "unavailable")
    assert problem(lost)["retry"] == "same_key"
    assert int(lost["Retry-After"]) >= 1
    assert (again.status_code, again["Idempotent-Replayed"]) == (201, "false")
    assert Group.objects.count() == 1


def test_a_connection_that_was_lost_between_two_requests_costs_nobody_an_error(
    caller: Callers, acme: Workspace, live_server: LiveServer
) -> None:
    """As after a restart of the database, where every thread of the server has kept one."""
    url = f"{live_server.url}/api/v1/workspaces/{acme.slug}/jobs/"
    with httpx2.Client(headers={"Authorization": f"Bearer {caller().secret}"}) as client:
        assert client.get(url).status_code == 200
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            assert cursor.fetchone()[0] >= 1
        assert client.get(url).status_code == 200


def lose_the_connection() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


@pytest.fixture
def dies_at_commit(transactional_db: None) -> Any:
    """A trigger that ends the connection while the transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
            " CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON auth_group DEFERRABLE"
            " INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()"
        )
    yield
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER dies ON auth_group; DROP FUNCTION die()")


@pytest.mark.usefixtures("dies_at_commit")
@pytest.mark.parametrize(
    ("key", "retry"), [({}, "none"), ({"idempotency_key": "the-key-1"}, "same_key")]
)
def test_a_commit_that_nobody_answered_is_called_unknown(
    caller: Callers, probe: type[Probe], key: dict[str, str], retry: str
) -> None:
    answer = caller().post("probe/", {}, **key)
    assert told(answer) == (503, "outcome_unknown")
    assert problem(answer)["retry"] == retry


@pytest.mark.sqlite
def test_what_fails_after_the_commit_does_not_take_the_answer_back(
    caller: Callers, probe: type[Probe], caplog: pytest.LogCaptureFixture
) -> None:
    from django.db import transaction

    def act(_view: Probe) -> None:
        transaction.on_commit(lambda: 1 / 0)

    probe.does(act)
    assert caller().post("probe/", {}).status_code == 201
    assert Group.objects.count() == 1
    assert "api.failed_after_commit" in caplog.text


@pytest.mark.sqlite
def test_a_refused_deed_is_in_the_audit_trail_and_a_read_is_not(
    caller: Callers, probe: type[Probe]
) -> None:
    vic = caller(Role.VIEWER)
    vic.post("probe/thing-7/", {"reason": "I was told to"}, x_request_id="request-1")
    vic.post("probe/", b"{")
    vic.get("/api/v1/workspaces/globex/probe/")

    named, unnamed = refusals()
    assert {named.workspace_id, unnamed.workspace_id} == {vic.workspace.pk}
    assert (named.actor, named.action, named.result) == (
        vic.account_id,
        "jobs.operate",
        "not_allowed",
    )
    assert (named.object_type, named.object_id) == ("thing", "thing-7")
    assert (named.reason, named.request_id) == ("I was told to", "request-1")
    assert (unnamed.object_type, unnamed.object_id) == ("workspace", str(vic.workspace.pk))
    assert probe.calls == []


@pytest.mark.sqlite
def test_a_refusal_that_is_kept_is_in_the_audit_trail_once(
    caller: Callers, probe: type[Probe]
) -> None:
    probe.does(raising(NotRetryable("Nothing was done: it is over.")))
    me = caller()
    first = me.post("probe/thing-7/", {"reason": "why not"}, idempotency_key="the-key-1")
    again = me.post("probe/thing-7/", {"reason": "why not"}, idempotency_key="the-key-1")
    assert first.content == again.content
    (event,) = refusals()
    assert (event.object_id, event.reason, event.result) == ("thing-7", "why not", "not_retryable")
    assert event.request_id == first["X-Request-ID"]


@pytest.mark.sqlite
def test_a_trace_of_the_work_stays_out_of_a_read(caller: Callers, probe: type[Probe]) -> None:
    probe.does(lambda _view: Response({}))
    answer = caller(Role.VIEWER).get("probe/", idempotency_key="the-key-1")
    assert (answer.status_code, "Idempotency-Key" in answer) == (200, False)
    assert not refusals()
