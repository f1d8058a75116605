"""One request id and one trace, from the request to the provider and back in every record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.http import HttpResponse
from django.urls import path
from pytest_django import Settings

from examples.payments.control import ProviderControl
from examples.payments.faults import Fault
from examples.payments.provider import running
from jobs import tracing
from jobs.kinds import Run, job_kind, outgoing_headers, step
from jobs.models import Job
from jobs.registry import KINDS
from jobs.testing import drain
from tests.drills.kinds import noop
from tests.integration.api.conftest import Caller
from tests.integration.api.jobs_scene import body
from workspaces.models import AuditEvent, Workspace

Callers = Callable[..., Caller]
pytestmark = pytest.mark.sqlite

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
IDS = {"x_request_id": "request-42", "traceparent": TRACE}
ORDER = {"kind": "payments.charge", "params": {"order_id": "o-1", "cents": 4200}, "key": "o-1"}


@pytest.fixture
def control(tmp_path: Path, settings: Settings) -> Any:
    with running(tmp_path / "ledger.jsonl") as provider:
        settings.PAYMENTS_URL = provider.url
        yield ProviderControl(provider.url)


def ids(call: dict[str, Any]) -> tuple[str, str]:
    return call["request_id"], call["traceparent"]


def test_a_requests_ids_reach_the_provider_and_every_record(
    caller: Callers, control: ProviderControl
) -> None:
    me = caller()

    made = me.post("jobs/", ORDER, **IDS)
    drain()

    job = Job.objects.get(pk=body(made)["id"])
    assert (job.state, made["X-Request-ID"]) == ("succeeded", "request-42")
    assert (job.request_id, job.traceparent) == ("request-42", TRACE)
    calls = [*control.requests("POST /holds"), *control.requests("POST /charges")]
    assert len(calls) == 2
    assert {ids(call) for call in calls} == {("request-42", TRACE)}


def test_a_retry_is_known_by_the_request_that_asked_for_it(
    caller: Callers, control: ProviderControl
) -> None:
    me = caller()
    control.script("POST /charges", Fault(status=402))
    made = body(me.post("jobs/", ORDER, **IDS))
    drain()

    again = me.post(f"jobs/{made['id']}/retry/", {"reason": "mended"}, x_request_id="request-43")
    drain()

    successor = Job.objects.get(pk=body(again)["id"])
    assert (successor.request_id, successor.traceparent) == ("request-43", TRACE)
    assert ids(control.requests("POST /charges")[-1]) == ("request-43", TRACE)
    assert AuditEvent.objects.get(action="job.resume").request_id == "request-43"
    for job_id, request in ((made["id"], "request-42"), (successor.pk, "request-43")):
        for address in (f"jobs/{job_id}/", f"jobs/{job_id}/evidence/"):
            attempts = body(me.get(address))["attempts"]
            assert [each["request_id"] for each in attempts] == [request], address


def test_what_a_job_enqueues_is_born_with_its_ids(acme: Workspace) -> None:
    sent: list[dict[str, str]] = []

    @step.local("child")
    def child() -> None:
        noop.s().enqueue(workspace=acme, key="child")

    def parent(run: Run) -> None:
        sent.append({**outgoing_headers(), "run": f"{run.request_id} {run.traceparent}"})
        run(child)

    kind = job_kind("drills.parent", steps=(child,))(parent)
    try:
        kind.s().enqueue(workspace=acme, key="p", request_id="request-44", traceparent=TRACE)
        drain()
    finally:
        KINDS.pop("drills.parent")

    born = Job.objects.get(key="child")
    assert (born.request_id, born.traceparent) == ("request-44", TRACE)
    expected = {"X-Request-ID": "request-44", "traceparent": TRACE, "run": f"request-44 {TRACE}"}
    assert sent == [expected]


def test_a_job_that_no_request_led_to_is_known_by_itself(acme: Workspace) -> None:
    sent: list[dict[str, str]] = []

    def lonely(run: Run) -> None:
        sent.append(outgoing_headers())

    kind = job_kind("drills.lonely")(lonely)
    try:
        job = kind.s().enqueue(workspace=acme, key="l")
        drain()
    finally:
        KINDS.pop("drills.lonely")

    assert sent == [{"X-Request-ID": str(job.pk)}]
    assert tracing.current() == tracing.Trace()


def test_what_is_enqueued_beside_the_api_carries_the_request_too(
    acme: Workspace, client: Any, settings: Settings
) -> None:
    settings.ROOT_URLCONF = __name__

    client.get("/enqueues/", headers={"X-Request-ID": "request-45", "traceparent": TRACE})

    job = Job.objects.get()
    assert (job.request_id, job.traceparent) == ("request-45", TRACE)


def enqueues(request: Any) -> Any:
    with transaction.atomic():
        noop.s().enqueue(workspace="acme", key="from-a-view")
    return HttpResponse(json.dumps({}))


urlpatterns = [path("enqueues/", enqueues)]
