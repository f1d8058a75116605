"""Lists come in pages that a cursor leads through."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.drills.kinds import noop
from tests.integration.api.conftest import Caller, problem
from workspaces.models import Workspace

pytestmark = pytest.mark.sqlite
Callers = Callable[..., Caller]


def jobs(workspace: Workspace, first: int, last: int) -> None:
    for number in range(first, last + 1):
        noop.s().enqueue(workspace=workspace, key=f"{number}", countdown=3600)


def keys(page: Any) -> list[str]:
    return [job["key"] for job in page.json()["results"]]


def test_newest_first_and_what_is_added_meanwhile_shifts_no_page(
    caller: Callers, acme: Workspace
) -> None:
    jobs(acme, 1, 5)
    me = caller()

    first = me.get("jobs/", {"limit": 2})
    jobs(acme, 6, 7)
    second = me.client.get(first.json()["next"], headers=me._with({}))
    third = me.client.get(second.json()["next"], headers=me._with({}))
    back = me.client.get(third.json()["previous"], headers=me._with({}))

    assert [keys(page) for page in (first, second, third)] == [["5", "4"], ["3", "2"], ["1"]]
    assert keys(back) == ["3", "2"]
    assert third.json()["next"] is None


@pytest.mark.parametrize(
    "limit", ["0", "-1", "201", "abc", "", "1e1", "9" * 40, "\u0663", "0000000019999"]
)
def test_a_limit_is_a_number_from_1_to_200(caller: Callers, limit: str) -> None:
    answer = caller().get("jobs/", {"limit": limit})
    assert (answer.status_code, problem(answer)["code"]) == (422, "input_invalid")
    assert list(problem(answer)["errors"]) == ["limit"]


def made(**parts: str) -> str:
    return b64encode(urlencode(parts).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    ["x", "AAAA", "é", made(p="abc"), made(p="1"), made(p="\x00"), made(p="x" * 5000)],
    ids=["short", "bytes", "foreign", "no id", "number", "nul", "long"],
)
def test_a_cursor_that_nobody_gave_is_refused(caller: Callers, cursor: str) -> None:
    answer = caller().get("jobs/", {"cursor": cursor})
    assert (answer.status_code, problem(answer)["code"]) == (400, "cursor_invalid")


def test_a_cursor_with_nul_is_none(caller: Callers) -> None:
    me = caller()
    cursor = b64encode(b"gt \0").decode()
    answer = me.client.get(f"/api/v1/workspaces/?cursor={cursor}", headers=me._with({}))
    assert (answer.status_code, problem(answer)["code"]) == (400, "cursor_invalid")


@pytest.mark.parametrize(
    "query",
    [
        {"created_after": "2026-11-30T00:00:00+23:59"},
        {"created_before": "2026-11-30T00:00:00-23:59"},
        {"finished_before": "2026-11-30T00:00:00+16:00"},
    ],
)
def test_a_moment_may_have_any_offset(caller: Callers, query: dict[str, str]) -> None:
    """PostgreSQL reads none from 16 hours on."""
    assert caller().get("jobs/", query).status_code == 200
