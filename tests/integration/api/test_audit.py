"""The audit trail over HTTP: filtered, in pages, and as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.integration.api.conftest import Caller, problem
from tests.integration.api.shapes import faults
from workspaces import audit
from workspaces.actors import Actor
from workspaces.api import audit as view
from workspaces.api.answers import AuditPage
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import Role

pytestmark = pytest.mark.sqlite
Callers = Callable[..., Caller]
ANA, BEN = Actor("user:1", "Ana"), Actor("user:2", "Ben")
CANARY = "hunter2-canary"


def deed(workspace: Workspace | None, **other: Any) -> AuditEvent:
    told = {"actor": ANA, "action": "job.resume", "object_type": "job", "object_id": "j-1"}
    return audit.record(workspace=workspace, **{**told, **other})


@pytest.fixture
def reader(caller: Callers) -> Caller:
    """Who may read the trail; what the account itself left in it comes first and is left out."""
    return caller()


def ids(answer: Any) -> list[int]:
    assert answer.status_code == 200, answer.content
    mine = [event["id"] for event in answer.json()["results"] if event["actor"] != "system"]
    return mine


# --- the list ------------------------------------------------------------------------------------


def test_each_deed_is_told_whole_and_as_declared(reader: Caller, acme: Workspace) -> None:
    event = deed(
        acme,
        reason="the provider is back",
        request_id="request-1",
        operation_id=UUID(int=7),
        before={"state": "dead"},
        after={"successor": "j-2"},
    )
    page = reader.get("audit/").json()
    assert faults(AuditPage(), page) == []
    assert page["results"][0] == {
        "id": event.pk,
        "created_at": event.created_at.isoformat(),
        "actor": "user:1",
        "actor_label": "Ana",
        "action": "job.resume",
        "object_type": "job",
        "object_id": "j-1",
        "reason": "the provider is back",
        "result": "done",
        "request_id": "request-1",
        "operation_id": str(UUID(int=7)),
        "before": {"state": "dead"},
        "after": {"successor": "j-2"},
    }


def test_nothing_of_another_workspace_or_of_the_platform_is_in_it(
    reader: Caller, acme: Workspace, rival: Workspace
) -> None:
    deed(rival)
    deed(None)
    mine = deed(acme)
    assert ids(reader.get("audit/")) == [mine.pk]
    assert ids(reader.get("audit/", {"object_id": "j-1"})) == [mine.pk]


def test_who_may_not_read_it_is_told_so_in_json_even_if_a_table_was_asked_for(
    caller: Callers,
) -> None:
    answer = caller(Role.VIEWER).get("audit/", {"format": "csv"}, accept="text/csv")
    assert (answer.status_code, problem(answer)["code"]) == (403, "not_allowed")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"actor": "user:2"}, ["b"]),
        ({"action": "job.cancel"}, ["c"]),
        ({"object_type": "lock"}, ["d"]),
        ({"object_id": "j-9"}, ["c", "d"]),
        ({"object_id": "j-9", "object_type": "lock"}, ["d"]),
        ({"result": "not_allowed"}, ["b"]),
        ({"result": "done", "actor": "user:1"}, ["a", "c", "d"]),
        ({"request_id": "request-9"}, ["d"]),
        ({"request_id": "request-9", "actor": "user:2"}, []),
        ({"actor": "user:"}, []),
    ],
    ids=str,
)
def test_all_that_is_asked_for_must_hold(
    reader: Caller, acme: Workspace, asked: dict[str, str], found: list[str]
) -> None:
    events = {
        "a": deed(acme),
        "b": deed(acme, actor=BEN, result="not_allowed"),
        "c": deed(acme, action="job.cancel", object_id="j-9"),
        "d": deed(acme, object_type="lock", object_id="j-9", request_id="request-9"),
    }
    assert ids(reader.get("audit/", asked)) == [events[name].pk for name in reversed(found)]


@pytest.mark.parametrize(
    "asked",
    [
        {"actors": "user:1"},
        {"actor": ""},
        {"actor": "x" * 201},
        {"actor": "a\x00b"},
        {"created_after": "yesterday"},
        {"created_after": "2026-01-01T00:00:00"},
        {"format": "xml"},
        {"limit": "0"},
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_refused_by_its_name(reader: Caller, asked: dict[str, str]) -> None:
    answer = reader.get("audit/", asked)
    assert (answer.status_code, problem(answer)["code"]) == (422, "input_invalid")
    assert list(problem(answer)["errors"]) == list(asked)


def at(event: AuditEvent) -> str:
    return event.created_at.isoformat()


def test_a_range_of_time_includes_its_ends(reader: Caller, acme: Workspace) -> None:
    first, second, third = deed(acme), deed(acme), deed(acme)
    far = (datetime.now(UTC) + timedelta(days=9)).isoformat()

    assert ids(reader.get("audit/", {"created_after": at(second)})) == [third.pk, second.pk]
    assert ids(reader.get("audit/", {"created_before": at(second)})) == [second.pk, first.pk]
    both = {"created_after": at(second), "created_before": at(second)}
    assert ids(reader.get("audit/", both)) == [second.pk]
    assert ids(reader.get("audit/", {"created_after": far})) == []
    assert ids(reader.get("audit/", {"created_before": "2001-01-01T00:00:00Z"})) == []


def test_a_clock_that_was_wrong_by_minutes_hides_nothing(
    reader: Caller, acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process writes with a clock that is behind, so that ids and moments disagree."""
    now = datetime.now(UTC)
    moments = [now, now - timedelta(minutes=20), now + timedelta(minutes=1)]
    events = []
    for moment in moments:
        monkeypatch.setattr("django.utils.timezone.now", lambda moment=moment: moment)
        events.append(deed(acme))
    monkeypatch.undo()
    since, until = now - timedelta(minutes=25), now - timedelta(minutes=15)
    window = {"created_after": since.isoformat(), "created_before": until.isoformat()}
    assert ids(reader.get("audit/", window)) == [events[1].pk]


def test_pages_are_stable_while_deeds_are_added(reader: Caller, acme: Workspace) -> None:
    events = [deed(acme).pk for _ in range(5)]
    first = reader.get("audit/", {"limit": 2, "actor": "user:1"})
    deed(acme)
    second = reader.client.get(first.json()["next"], headers=reader._with({}))
    third = reader.client.get(second.json()["next"], headers=reader._with({}))
    assert [ids(page) for page in (first, second, third)] == [
        [events[4], events[3]],
        [events[2], events[1]],
        [events[0]],
    ]
    assert third.json()["next"] is None


@pytest.mark.parametrize("cursor", ["x", "bHQgYWJj", "bHQgOTk5OTk5OTk5OTk5OTk5OTk5OTk5"])
def test_a_cursor_that_nobody_gave_is_refused(reader: Caller, cursor: str) -> None:
    answer = reader.get("audit/", {"cursor": cursor})
    assert (answer.status_code, problem(answer)["code"]) == (400, "cursor_invalid")


def test_a_page_costs_the_same_however_long_the_trail_is(
    reader: Caller, acme: Workspace, django_assert_max_num_queries: Any
) -> None:
    for asked in (
        {},
        {"actor": "user:1"},
        {"result": "done", "created_after": "2020-01-01T00:00Z"},
    ):
        reader.get("audit/", asked)
        for _ in range(20):
            deed(acme)
        with django_assert_max_num_queries(5):
            assert len(ids(reader.get("audit/", asked))) >= 20


def test_what_people_wrote_by_mistake_is_hidden(reader: Caller, acme: Workspace) -> None:
    deed(
        acme,
        reason=f"I tried password={CANARY}",
        before={"token": CANARY},
        after={"resolution": [f"see https://ana:{CANARY}@example.com"]},
    )
    for asked in ({}, {"format": "csv"}):
        assert CANARY not in text_of(reader.get("audit/", asked))


# --- the table -----------------------------------------------------------------------------------


def text_of(answer: Any) -> str:
    assert answer.status_code == 200
    whole = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return str(whole.decode())


def rows_of(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text_of(answer), newline="")))


@pytest.mark.parametrize(
    ("asked", "accept"),
    [({"format": "csv"}, "*/*"), ({}, "text/csv"), ({"format": "csv"}, "application/json")],
    ids=["parameter", "header", "parameter first"],
)
def test_a_table_has_the_same_rows_and_is_streamed(
    reader: Caller, acme: Workspace, asked: dict[str, str], accept: str
) -> None:
    event = deed(acme, reason='He said "now",\nand I did.', before={"state": "dead"})
    answer = reader.get("audit/", {**asked, "actor": "user:1"}, accept=accept)
    assert answer["Content-Type"].startswith("text/csv; charset=utf-8")
    assert answer["Content-Disposition"] == 'attachment; filename="audit-acme.csv"'
    assert answer["Cache-Control"] == "no-store"
    assert answer.streaming
    (row,) = rows_of(answer)
    assert list(row) == list(view.COLUMNS)
    assert (row["id"], row["actor_label"], row["operation_id"]) == (str(event.pk), "Ana", "")
    assert (row["reason"], row["before"]) == (event.reason, '{"state": "dead"}')


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\uff1d1", "=cmd|'/c calc'!A0"],
)
def test_no_cell_is_a_formula(reader: Caller, acme: Workspace, text: str) -> None:
    deed(acme, reason=text, actor=Actor("user:1", text), object_id=text)
    (row,) = rows_of(reader.get("audit/", {"format": "csv", "actor": "user:1"}))
    for column in ("reason", "actor_label", "object_id"):
        assert row[column] == f"'{text}"


@pytest.mark.parametrize("value", ["plain", "a=b", "x-1", "", 7, {"a": "=1"}, [1]])
def test_what_is_no_formula_stays_as_it_is(value: Any) -> None:
    assert not view.cell(value).startswith("'")


def test_a_table_is_bounded_and_leads_to_the_next(
    reader: Caller, acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "EXPORTED", 3)
    monkeypatch.setattr(view, "CHUNK", 2)
    events = [str(deed(acme).pk) for _ in range(7)]
    url, seen = reader.url("audit/?format=csv&actor=user:1"), []
    for _ in range(5):
        answer = reader.client.get(url, headers=reader._with({}))
        seen.append([row["id"] for row in rows_of(answer)])
        if "Link" not in answer:
            break
        url = answer["Link"].partition(">")[0].removeprefix("<")
        assert answer["Link"].endswith('; rel="next"')
    assert seen == [events[:3:-1], events[3:0:-1], events[:1]]


def test_an_empty_table_has_its_head(reader: Caller) -> None:
    text = text_of(reader.get("audit/", {"format": "csv", "actor": "nobody"}))
    assert text == ",".join(view.COLUMNS) + "\r\n"
