"""What holds for each address of the API, whatever it is for: found in the URL conf itself."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from jobs.models import Job, Operation
from jobs.recovery.draft import draft
from tests.drills.kinds import repeatable
from tests.drills.talkative import talkative
from tests.integration.api.conftest import Caller, problem
from tests.integration.api.jobs_scene import dead
from webhooks import bodies, endpoints
from webhooks.models import Message, WebhookDelivery
from workspaces.actors import SYSTEM
from workspaces.models import Workspace
from workspaces.permissions import Role

Callers = Callable[..., Caller]
CANARY = "4111-canary-1111"
RANK = list(Role)


@dataclass(frozen=True)
class Route:
    """An address with a method."""

    name: str
    method: str
    params: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.method} {self.name}"

    def url(self, workspace: Workspace, ids: Mapping[str, object]) -> str:
        given = {"slug": workspace.slug, **ids}
        return reverse(self.name, kwargs={name: given[name] for name in self.params})


def _walk(patterns: list[Any], params: tuple[str, ...] = ()) -> Iterator[Route]:
    for pattern in patterns:
        found = params + tuple(pattern.pattern.converters)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, found)
        elif isinstance(pattern, URLPattern) and "slug" in found:
            view: Any = getattr(pattern.callback, "view_class", None)
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                if hasattr(view, method.lower()):
                    yield Route(str(pattern.name), method, found)


ROUTES = [route for route in _walk(get_resolver().url_patterns) if route.name.startswith("api-")]
LOWEST = {
    "GET api-workspace": Role.VIEWER,
    "POST api-workspace-close": Role.ADMIN,
    "GET api-audit": Role.OPERATOR,
    "GET api-jobs": Role.VIEWER,
    "POST api-jobs": Role.OPERATOR,
    "GET api-job": Role.VIEWER,
    "GET api-job-events": Role.VIEWER,
    "GET api-job-evidence": Role.VIEWER,
    "GET api-job-retry": Role.VIEWER,
    "POST api-job-retry": Role.OPERATOR,
    "POST api-job-cancel": Role.OPERATOR,
    "POST api-job-resolve": Role.OPERATOR,
    "POST api-job-reconcile": Role.OPERATOR,
    "GET api-operations": Role.VIEWER,
    "POST api-operations": Role.OPERATOR,
    "GET api-operation": Role.VIEWER,
    "GET api-operation-items": Role.VIEWER,
    "POST api-operation-start": Role.OPERATOR,
    "POST api-operation-pause": Role.OPERATOR,
    "POST api-operation-go": Role.OPERATOR,
    "POST api-operation-stop": Role.OPERATOR,
    "POST api-operation-resolve": Role.OPERATOR,
    "GET api-webhook-endpoints": Role.VIEWER,
    "POST api-webhook-endpoints": Role.ADMIN,
    "GET api-webhook-endpoint": Role.VIEWER,
    "PATCH api-webhook-endpoint": Role.ADMIN,
    "POST api-webhook-endpoint-rotate": Role.ADMIN,
    "POST api-webhook-endpoint-enable": Role.ADMIN,
    "POST api-webhook-endpoint-disable": Role.ADMIN,
    "POST api-webhook-endpoint-test": Role.OPERATOR,
    "POST api-webhook-endpoint-recover": Role.OPERATOR,
    "GET api-webhook-deliveries": Role.OPERATOR,
    "GET api-webhook-delivery": Role.OPERATOR,
    "POST api-webhook-redeliver": Role.OPERATOR,
}
every_route = pytest.mark.parametrize("route", ROUTES, ids=str)
objects = pytest.mark.parametrize(
    "route", [route for route in ROUTES if len(route.params) > 1], ids=str
)


def things_of(workspace: Workspace, ledger: str) -> dict[str, object]:
    """One of each thing that an address can name, with a secret in it."""
    job = dead(repeatable.s(ledger=ledger), workspace, "first", key="dead")
    return ids_of(workspace, job)


def ids_of(workspace: Workspace, job: Job) -> dict[str, object]:
    delivery = delivered(workspace)
    return {
        "job_id": job.pk,
        "operation_id": drafted(workspace, job).pk,
        "endpoint_id": delivery.endpoint_id,
        "delivery_id": delivery.pk,
    }


def delivered(workspace: Workspace) -> WebhookDelivery:
    """A delivery that was taken, of an endpoint with a secret header."""
    endpoint, _secret = endpoints.create(
        workspace,
        url="https://hooks.example.com/here",
        events=["job.retried"],
        headers={"X-Key": CANARY},
        actor=SYSTEM,
    )
    message = Message.objects.create(
        id=bodies.new_id(), workspace=workspace, type="job.retried", body=b"{}"
    )
    return WebhookDelivery.objects.create(
        workspace=workspace,
        endpoint=endpoint,
        message=message,
        status="succeeded",
        finished_at=Now(),
    )


def drafted(workspace: Workspace, job: Job) -> Operation:
    return draft(workspace, "resume", actor=SYSTEM, ids=[str(job.pk)])


@pytest.fixture
def ledger(tmp_path: Any) -> str:
    return str(tmp_path / "ledger")


def test_each_route_says_who_may_use_it() -> None:
    assert {str(route) for route in ROUTES} == set(LOWEST)


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


@every_route
@pytest.mark.parametrize("role", list(Role))
def test_each_role_may_do_what_the_table_says(
    route: Route, role: Role, caller: Callers, acme: Workspace, ledger: str
) -> None:
    may = RANK.index(role) >= RANK.index(LOWEST[str(route)])
    response = caller(role).send(route.method, route.url(acme, things_of(acme, ledger)), {})
    refused = response.status_code == 403
    assert refused is not may, response.content
    if refused:
        assert problem(response)["code"] == "not_allowed"
        assert problem(response)["right"]


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
