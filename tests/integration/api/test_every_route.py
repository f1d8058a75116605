"""What holds for each address of the API, whatever it is for: found in the URL conf itself."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.drills.talkative import talkative
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.jobs_scene import dead
from tests.integration.api.routes import CANARY, EVERY, ROUTES, Route, ids_of, things_of
from workspaces.models import ServiceAccount, Workspace
from workspaces.permissions import TABLE, Role

Callers = Callable[..., Caller]
RIGHTS = {  # what each takes in the workspace; None: any role there is enough
    "GET api-workspace": None,
    "POST api-workspace-close": "workspaces.close",
    "GET api-audit": "audit.view",
    "GET api-jobs": "jobs.view",
    "POST api-jobs": "jobs.enqueue",
    "GET api-job": "jobs.view",
    "GET api-job-events": "jobs.view",
    "GET api-job-evidence": "jobs.view",
    "GET api-job-retry": "jobs.view",
    "POST api-job-retry": "jobs.operate",
    "POST api-job-cancel": "jobs.operate",
    "POST api-job-resolve": "jobs.operate",
    "POST api-job-reconcile": "jobs.operate",
    "GET api-operations": "jobs.view",
    "POST api-operations": "operations.run",
    "GET api-operation": "jobs.view",
    "GET api-operation-items": "jobs.view",
    "POST api-operation-start": "operations.run",
    "POST api-operation-pause": "operations.run",
    "POST api-operation-go": "operations.run",
    "POST api-operation-stop": "operations.run",
    "POST api-operation-resolve": "operations.run",
    "GET api-webhook-endpoints": "webhooks.view",
    "POST api-webhook-endpoints": "webhooks.manage",
    "GET api-webhook-endpoint": "webhooks.view",
    "PATCH api-webhook-endpoint": "webhooks.manage",
    "POST api-webhook-endpoint-rotate": "webhooks.manage",
    "POST api-webhook-endpoint-enable": "webhooks.manage",
    "POST api-webhook-endpoint-disable": "webhooks.manage",
    "POST api-webhook-endpoint-test": "webhooks.operate",
    "POST api-webhook-endpoint-recover": "webhooks.operate",
    "GET api-webhook-deliveries": "webhooks.operate",
    "GET api-webhook-delivery": "webhooks.operate",
    "POST api-webhook-redeliver": "webhooks.operate",
}
OF_NO_WORKSPACE = {  # a token of any, a session of the console too, nothing at all
    "GET api-workspaces",
    "GET api-schema",
    "GET api-docs",
    "GET api-problems",
}
every_route = pytest.mark.parametrize("route", ROUTES, ids=str)
objects = pytest.mark.parametrize(
    "route", [route for route in ROUTES if len(route.params) > 1], ids=str
)


@pytest.fixture
def ledger(tmp_path: Any) -> str:
    return str(tmp_path / "ledger")


def test_each_route_says_who_may_use_it() -> None:
    assert {str(route) for route in ROUTES} == set(RIGHTS)
    assert {str(route) for route in EVERY} == set(RIGHTS) | OF_NO_WORKSPACE


@every_route
def test_every_deed_is_repeated_safely_under_a_key(route: Route) -> None:
    work = getattr(route.view, route.method.lower())
    assert getattr(work, "idempotent", False) is (route.method != "GET")


@every_route
def test_without_a_token_nothing_is_told(route: Route, acme: Workspace) -> None:
    url = route.url(acme, dict.fromkeys(route.params, uuid.uuid4()))
    response = Client().generic(route.method, url, "{}", content_type="application/json")
    assert (response.status_code, problem(response)["code"]) == (401, "not_signed_in")
    assert response["WWW-Authenticate"].startswith("Bearer")


@every_route
def test_a_foreign_workspace_does_not_exist(
    route: Route, caller: Callers, rival: Workspace, ledger: str
) -> None:
    me = caller(Role.ADMIN)
    response = me.send(route.method, route.url(rival, things_of(rival, ledger)), {"reason": "x"})
    never = me.send(
        route.method, route.url(Workspace(slug="never"), things_of(rival, ledger)), {"reason": "x"}
    )
    assert (response.status_code, problem(response)["code"]) == (404, "no_such_workspace")
    assert problem(never)["detail"].replace("never", "rival") == problem(response)["detail"]


@objects
def test_a_thing_of_another_workspace_does_not_exist_here(
    route: Route, caller: Callers, acme: Workspace, rival: Workspace, ledger: str
) -> None:
    me = caller(Role.ADMIN)
    theirs = things_of(rival, ledger)
    foreign = me.send(
        route.method, route.url(acme, theirs), {"reason": "x"}, idempotency_key="k" * 9
    )
    unknown = me.send(route.method, route.url(acme, dict.fromkeys(theirs, uuid.uuid4())), {})
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert problem(foreign)["code"] == problem(unknown)["code"]
    # Whoever may do it there has to say so in the address all the same.
    ServiceAccount.objects.filter(pk=me.account.pk).update(workspace=None)
    there = me.send(route.method, route.url(acme, theirs), {"reason": "x"}, idempotency_key="l" * 9)
    assert (there.status_code, problem(there)["code"]) == (404, problem(foreign)["code"])


@every_route
@pytest.mark.parametrize("role", list(Role))
def test_each_role_may_do_what_the_table_says(
    route: Route, role: Role, caller: Callers, acme: Workspace, ledger: str
) -> None:
    right = RIGHTS[str(route)]
    may = right is None or right in TABLE[role]
    me, url = caller(role), route.url(acme, things_of(acme, ledger))
    response = me.send(route.method, url, {})
    assert (response.status_code == 403) is not may, response.content
    if route.method == "GET":
        assert me.send("HEAD", url).status_code == response.status_code
    if not may:
        told = problem(response)
        assert (told["code"], told["right"]) == ("not_allowed", right)


@every_route
def test_what_a_job_was_given_in_secret_is_in_no_answer(
    route: Route, caller: Callers, acme: Workspace, ledger: str
) -> None:
    secret = talkative.s(card={"number": CANARY}, fault="terminal")
    job = dead(secret, acme, "speak", key="secret")
    assert CANARY in json.dumps(job.params)
    ids = ids_of(acme, job)
    response = caller(Role.ADMIN).send(route.method, route.url(acme, ids), {"reason": "why"})
    assert CANARY not in response.content.decode(errors="replace")
    assert CANARY not in json.dumps(dict(response.items()))


@every_route
def test_a_method_that_is_not_there_is_refused_as_a_problem(
    route: Route, caller: Callers, acme: Workspace, ledger: str
) -> None:
    url = route.url(acme, things_of(acme, ledger))
    response = caller(Role.ADMIN).send("TRACE", url)
    assert (response.status_code, problem(response)["code"]) == (405, "method_not_allowed")
    assert route.method in response["Allow"]


@every_route
def test_bytes_that_are_no_json_are_never_a_fault_of_ours(
    route: Route, caller: Callers, acme: Workspace, ledger: str
) -> None:
    me, ids = caller(Role.ADMIN), things_of(acme, ledger)
    for raw in (b"\xff\xfe", b"[" * 100_000, b'{"a": "\\ud800"}', b'{"reason": "\\u0000"}', b"nul"):
        response = me.send(route.method, route.url(acme, ids), raw.decode("latin-1"))
        assert response.status_code < 500, (raw[:20], response.content)
