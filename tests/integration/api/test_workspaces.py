"""Which workspaces a caller sees, and how one is closed over HTTP."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jobs.models import Job
from tests.drills.kinds import noop
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.shapes import faults
from workspaces.api.answers import WorkspacePage, WorkspaceShown
from workspaces.models import AuditEvent, ServiceAccount, Workspace
from workspaces.permissions import TABLE, Role

pytestmark = pytest.mark.sqlite
Callers = Callable[..., Caller]
ALL = "/api/v1/workspaces/"
WHY = {"reason": "the contract ended"}


def everywhere(me: Caller) -> Caller:
    """The same caller, in all workspaces."""
    ServiceAccount.objects.filter(pk=me.account.pk).update(workspace=None)
    return me


def test_a_caller_sees_its_own_and_nothing_else(caller: Callers, rival: Workspace) -> None:
    page = caller(Role.VIEWER).get(ALL).json()
    assert faults(WorkspacePage(), page) == []
    assert [workspace["slug"] for workspace in page["results"]] == ["acme"]


def test_one_for_all_sees_all_by_slug_in_pages(caller: Callers, rival: Workspace) -> None:
    Workspace.objects.create(slug="zeta", name="Zeta")
    me = everywhere(caller(Role.VIEWER))
    first = me.get(ALL, {"limit": 2}).json()
    second = me.client.get(first["next"], headers=me._with({})).json()
    assert [w["slug"] for w in first["results"]] == ["acme", "rival"]
    assert [w["slug"] for w in second["results"]] == ["zeta"]
    assert second["next"] is None


def test_the_list_takes_nothing_it_does_not_know(caller: Callers) -> None:
    answer = caller().get(ALL, {"slug": "acme"})
    assert (answer.status_code, problem(answer)["code"]) == (422, "input_invalid")


@pytest.mark.parametrize("role", list(Role))
def test_one_is_told_with_what_the_caller_may_do_there(caller: Callers, role: Role) -> None:
    told = caller(role).get("").json()
    assert faults(WorkspaceShown(), told) == []
    assert (told["slug"], told["name"], told["closed_at"]) == ("acme", "Acme", None)
    assert told["rights"] == sorted(TABLE[role])


def test_closing_stops_the_work_and_is_answered_again_to_whoever_still_comes_in(
    caller: Callers, acme: Workspace
) -> None:
    me = everywhere(caller(Role.ADMIN))
    job = noop.s().enqueue(workspace=acme, key="a", countdown=3600)

    first = me.post("close/", WHY, idempotency_key="the-key-1")
    again = me.post("close/", WHY, idempotency_key="the-key-1")

    assert (first.status_code, again.content) == (200, first.content)
    assert faults(WorkspaceShown(), first.json()) == []
    acme.refresh_from_db()
    assert acme.closed_at is not None
    assert first.json()["closed_at"] == acme.closed_at.isoformat()
    assert Job.objects.get(pk=job.pk).state == "cancelled"
    event = AuditEvent.objects.get(action="workspaces.close")
    assert (event.actor, event.reason) == (me.account_id, WHY["reason"])
    assert event.request_id == first["X-Request-ID"]
    assert me.get("").json()["closed_at"] is not None


def test_closing_ends_the_tokens_of_the_workspace(caller: Callers) -> None:
    me = caller(Role.ADMIN)
    assert me.post("close/", WHY).status_code == 200
    assert (me.get("").status_code, me.post("close/", WHY).status_code) == (401, 401)


def test_nothing_new_comes_into_a_closed_one_and_that_is_on_record(caller: Callers) -> None:
    me = everywhere(caller(Role.ADMIN))
    me.post("close/", WHY)
    order = {"kind": "payments.charge", "params": {"order_id": "o-1", "cents": 4200}}
    answer = me.post("jobs/", order)
    assert (answer.status_code, problem(answer)["code"]) == (409, "workspace_closed")
    event = AuditEvent.objects.get(result="workspace_closed")
    assert (event.actor, event.action) == (me.account_id, "jobs.enqueue")


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": " "}, {"reason": "x" * 2001}])
def test_closing_needs_a_reason(caller: Callers, body: dict[str, str], acme: Workspace) -> None:
    answer = caller(Role.ADMIN).post("close/", body)
    assert answer.status_code == 422
    acme.refresh_from_db()
    assert acme.closed_at is None


def test_who_may_not_close_is_on_record(caller: Callers, acme: Workspace) -> None:
    lead = caller(Role.LEAD)
    answer = lead.post("close/", WHY)
    assert (answer.status_code, problem(answer)["code"]) == (403, "not_allowed")
    event = AuditEvent.objects.get(result="not_allowed")
    assert (event.action, event.object_id) == ("workspaces.close", str(acme.pk))
    assert event.reason == WHY["reason"]
