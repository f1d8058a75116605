"""Bulk deeds over HTTP: drafted, looked at, started, held and ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobs.api import answers
from jobs.models import Job, Operation
from tests.integration.api.conftest import WHO_AND_WHERE, Caller, problem
from tests.integration.api.jobs_scene import body
from tests.integration.api.shapes import faults
from tests.integration.bulk_scene import KIND, WHY, rows, turns
from workspaces.models import AuditEvent, Workspace

Callers = Callable[..., Caller]
pytestmark = pytest.mark.sqlite

DEAD = {"verb": "resume", "filter": {"state": "dead", "kind": KIND}}
QUICK = {**DEAD, "care": {"rate_per_minute": 6000, "stop_after": 5, "stop_ratio": 0.5}}


@pytest.fixture(autouse=True)
def _held(monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine runs but where a test says so."""
    monkeypatch.setattr("jobs.publish.drain", lambda: 0)


def drafted(me: Caller, said: dict[str, Any] | None = None) -> Operation:
    response = me.post("operations/", said or QUICK)
    assert response.status_code == 201, response.content
    return Operation.objects.get(pk=body(response)["id"])


def deed(me: Caller, operation: Operation, name: str, **headers: str) -> Any:
    return me.post(f"operations/{operation.pk}/{name}/", {"reason": WHY}, **headers)


def test_a_draft_freezes_what_matches_and_does_nothing(caller: Callers, acme: Workspace) -> None:
    rows(acme, 3)
    rows(acme, 1, "doubt", cause="uncertain")
    me = caller()

    response = me.post("operations/", QUICK)

    told = body(response)
    assert (response.status_code, told["state"]) == (201, "draft")
    assert (told["selected"], told["eligible"], told["actor"]) == (4, 3, me.account_id)
    assert told["counts"] == {"pending": 3, "done": 0, "skipped": 1, "failed": 0}
    assert told["not_done"] == {"skipped": {"uncertain": 1}}
    assert (told["rate_per_minute"], told["stop_after"], told["stop_ratio"]) == (6000, 5, 0.5)
    assert body(me.get(response["Location"].removeprefix("http://testserver"))) == told
    assert faults(answers.OperationShown(), told) == []
    assert not Job.objects.filter(retry_of__isnull=False).exists()


def test_a_draft_of_ids_skips_what_is_not_here(
    caller: Callers, acme: Workspace, rival: Workspace
) -> None:
    mine, theirs = rows(acme, 2), rows(rival, 1)
    me = caller()

    ids = [str(job.pk) for job in (*mine, *theirs)] + ["no-id-at-all"]
    operation = drafted(me, {"verb": "cancel", "ids": ids})

    told = body(me.get(f"operations/{operation.pk}/"))
    assert told["selection"] == "4 ids"
    assert told["not_done"] == {"skipped": {"job_not_found": 2, "not_cancellable": 2}}


def test_items_come_in_their_order_and_by_outcome(caller: Callers, acme: Workspace) -> None:
    jobs = rows(acme, 5)
    rows(acme, 2, "doubt", cause="uncertain")
    me = caller()
    operation = drafted(me)
    path = f"operations/{operation.pk}/items/"

    first = body(me.get(path, {"limit": 4}))
    second = body(me.get(first["next"].removeprefix("http://testserver")))
    back = body(me.get(second["previous"].removeprefix("http://testserver")))
    skipped = body(me.get(path, {"outcome": "skipped"}))

    told = first["results"] + second["results"]
    assert [item["position"] for item in told] == [1, 2, 3, 4, 5, 6, 7]
    assert [item["object_id"] for item in told[:5]] == [str(job.pk) for job in jobs]
    assert back["results"] == first["results"]
    assert second["next"] is None
    assert [item["position"] for item in skipped["results"]] == [6, 7]
    assert faults(answers.ItemPage(), first) == []
    assert problem(me.get(path, {"outcome": "lost"}))["errors"]["outcome"]
    assert problem(me.get(path, {"cursor": "Z3QgeA"}))["code"] == "cursor_invalid"


def test_an_operation_runs_pauses_goes_on_and_ends(caller: Callers, acme: Workspace) -> None:
    rows(acme, 3, params={"then": "terminal"})
    me, other = caller(), caller(name="another")
    operation = drafted(me)

    started = deed(me, operation, "start")
    paused = deed(me, operation, "pause")
    gone_on = deed(other, operation, "go")
    turns(operation)
    ended = body(me.get(f"operations/{operation.pk}/"))
    resolved = deed(me, operation, "resolve")

    assert (started.status_code, body(started)["state"]) == (202, "running")
    assert body(started)["job_id"] is not None
    assert (paused.status_code, body(paused)["state"]) == (200, "paused")
    assert (gone_on.status_code, body(gone_on)["actor"]) == (202, other.account_id)
    assert (ended["state"], ended["counts"]["done"]) == ("finished", 3)
    assert (resolved.status_code, body(resolved)["resolution"]) == (200, WHY)
    assert Job.objects.filter(retry_of__isnull=False, workspace=acme).count() == 3
    events = AuditEvent.objects.filter(object_type="operation").order_by("pk")
    assert list(events.values_list("action", "actor")) == [
        ("operation.start", me.account_id),
        ("operation.pause", me.account_id),
        ("operation.go", other.account_id),
        ("operation.resolve", me.account_id),
    ]


def test_a_draft_may_be_stopped_for_good(caller: Callers, acme: Workspace) -> None:
    rows(acme, 1)
    me = caller()
    operation = drafted(me)

    stopped = deed(me, operation, "stop")

    assert (stopped.status_code, body(stopped)["state"]) == (200, "stopped")
    again = problem(deed(me, operation, "start"))
    assert (again["status"], again["code"]) == (409, "operation_state")


def test_nothing_eligible_is_not_started(caller: Callers, acme: Workspace) -> None:
    rows(acme, 1, cause="uncertain")
    me = caller()

    told = problem(deed(me, drafted(me), "start"))

    assert (told["status"], told["code"]) == (409, "nothing_eligible")


def test_a_large_one_needs_a_lead_to_run_but_anybody_may_hold_it(
    caller: Callers, acme: Workspace
) -> None:
    rows(acme, 51)
    me = caller()
    operation = drafted(me)

    told = problem(deed(me, operation, "start"))

    assert (told["status"], told["right"]) == (403, "operations.large")
    assert AuditEvent.objects.get(result="not_allowed").action == "operation.start"
    assert deed(caller("lead"), operation, "start").status_code == 202
    assert deed(me, operation, "pause").status_code == 200
    assert problem(deed(me, operation, "go"))["right"] == "operations.large"


@pytest.mark.parametrize("name", ["start", "pause", "go", "stop", "resolve"])
def test_who_may_only_look_is_told_which_right_is_missing(
    caller: Callers, acme: Workspace, name: str
) -> None:
    rows(acme, 1)
    operation = drafted(caller())
    looker = caller("viewer")

    told = problem(deed(looker, operation, name))

    assert (told["status"], told["right"]) == (403, "operations.run")
    assert looker.get(f"operations/{operation.pk}/").status_code == 200
    assert problem(looker.post("operations/", QUICK))["right"] == "operations.run"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["", "items/", "start/", "pause/", "go/", "stop/", "resolve/"])
def test_a_foreign_operation_does_not_exist_for_any_verb(
    caller: Callers, acme: Workspace, rival: Workspace, path: str, method: str
) -> None:
    rows(acme, 1)
    operation = drafted(caller())

    told = caller("admin", workspace=rival).send(method, f"operations/{operation.pk}/{path}")

    assert (told.status_code, problem(told)["code"]) == (404, "operation_not_found")
    operation.refresh_from_db()
    assert operation.state == "draft"


def test_a_deed_with_a_key_is_answered_once(caller: Callers, acme: Workspace) -> None:
    rows(acme, 1)
    me = caller()

    drafts = [me.post("operations/", QUICK, idempotency_key="draft-01") for _ in range(2)]
    operation = Operation.objects.get()
    starts = [deed(me, operation, "start", idempotency_key="start-01") for _ in range(2)]

    assert drafts[0].content == drafts[1].content
    assert starts[0].content == starts[1].content
    assert [response["Idempotent-Replayed"] for response in starts] == ["false", "true"]
    assert AuditEvent.objects.filter(action="operation.start").count() == 1


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"verb": "resume"}, "ids"),
        ({**DEAD, "ids": ["1"]}, "ids"),
        ({"verb": "resume", "ids": []}, "ids"),
        ({"verb": "resume", "ids": [7]}, "ids"),
        ({"verb": "resume", "ids": ["x"] * 10_000}, "ids"),
        ({"verb": "resume", "filter": {}}, "filter"),
        ({"verb": "resume", "filter": {"state": "dead,kind=x"}}, "filter"),
        ({"verb": "resume", "filter": {"state=dead,kind": "x"}}, "filter"),
        ({"verb": "resume", "filter": "state=dead"}, "filter"),
        ({"verb": 7, "ids": ["1"]}, "verb"),
        ({**DEAD, "care": {"canary": -1}}, "care"),
        ({**DEAD, "care": {"canary": True}}, "care"),
        ({**DEAD, "care": {"canary": 10**30}}, "care"),
        ({**DEAD, "care": {"rate_per_minute": 6001}}, "care"),
        ({**DEAD, "care": {"stop_ratio": 0}}, "care"),
        ({**DEAD, "care": {"stop_ratio": "0.5"}}, "care"),
        ({**DEAD, "care": {"careful": 1}}, "care"),
        ({**DEAD, "reason": "why"}, "reason"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_field_that_is_wrong_is_named(
    caller: Callers, acme: Workspace, said: dict[str, Any], field: str
) -> None:
    rows(acme, 1)

    told = problem(caller().post("operations/", said))

    assert (told["status"], told["code"], list(told["errors"])) == (422, "input_invalid", [field])


@pytest.mark.parametrize(
    "said",
    [
        {"verb": "explode", "ids": ["1"]},
        {"verb": "resume", "filter": {"state": "succeeded"}},
        {"verb": "resume", "filter": {"kind": KIND}},
        {"verb": "resume", "filter": {"state": "dead", "colour": "red"}},
    ],
    ids=str,
)
def test_what_no_operation_can_be_has_its_own_code(
    caller: Callers, acme: Workspace, said: dict[str, Any]
) -> None:
    told = problem(caller().post("operations/", said))

    assert (told["status"], told["code"]) == (422, "operation_invalid")


def test_the_list_is_of_this_workspace_and_costs_the_same_however_long(
    caller: Callers, acme: Workspace, rival: Workspace, django_assert_num_queries: Any
) -> None:
    rows(rival, 1)
    drafted(caller(workspace=rival))
    rows(acme, 2)
    me = caller()
    made = [str(drafted(me).pk) for _ in range(3)]
    deed(me, Operation.objects.get(pk=made[0]), "stop")
    me.get("operations/")

    with django_assert_num_queries(1 + WHO_AND_WHERE):
        one = body(me.get("operations/", {"limit": 1}))
    with django_assert_num_queries(1 + WHO_AND_WHERE):
        every = body(me.get("operations/"))
    drafts = body(me.get("operations/", {"state": "draft", "verb": "resume"}))

    assert [operation["id"] for operation in every["results"]] == made[::-1]
    assert one["results"] == every["results"][:1]
    assert [operation["id"] for operation in drafts["results"]] == made[:0:-1]
    assert faults(answers.OperationPage(), every) == []
    assert problem(me.get("operations/", {"state": "odd"}))["code"] == "input_invalid"


def test_no_secret_that_people_typed_is_told(caller: Callers, acme: Workspace) -> None:
    rows(acme, 1)
    me = caller()
    operation = drafted(me)
    deed(me, operation, "start")

    why = {"reason": "login with password=hunter2-canary"}
    told = me.post(f"operations/{operation.pk}/stop/", why)

    assert "hunter2" not in told.content.decode()
    assert "hunter2" not in me.get("operations/").content.decode()
