"""Nobody knows whether the money moved: the provider is asked, never charged on a guess."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from examples.payments import client
from examples.payments.control import ProviderControl
from examples.payments.faults import Fault
from examples.payments.kinds import refund
from tests.integration.payments.running import (
    attempted,
    enqueued,
    finished,
    outcomes,
    output,
    steps,
)
from workspaces.models import Workspace

pytestmark = pytest.mark.sqlite


def test_a_502_after_the_charge_is_found_and_not_charged_again(
    workspace: Workspace, control: ProviderControl
) -> None:
    control.script("POST /charges", Fault(status=502, effect=True))
    job = attempted(enqueued(workspace))
    in_doubt = steps(job)["charge"]

    finished(job)

    (charged,) = client.charges(output(job, "reserve")["id"]).charges
    assert in_doubt == "started"
    assert outcomes(job) == [("failed", "http_502"), ("succeeded", "")]
    assert output(job, "charge") == charged
    assert control.effects()["charge"] == 1


def test_a_502_without_a_charge_is_charged_after_the_provider_said_so(
    workspace: Workspace, control: ProviderControl
) -> None:
    control.script("POST /charges", Fault(status=502))

    job = finished(enqueued(workspace))

    assert job.state == "succeeded"
    assert len(control.requests("GET /charges")) == 1
    assert len(control.requests("POST /charges")) == 2
    assert control.effects()["charge"] == 1


@pytest.mark.parametrize(
    ("fault", "charges_asked"),
    [(Fault(drop=True, effect=True), 1), (Fault(drop=True), 2), (Fault(stall_after=60), 1)],
    ids=["dropped after", "dropped before", "answered too late"],
)
def test_a_charge_without_an_answer_happens_once(
    workspace: Workspace,
    control: ProviderControl,
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
    charges_asked: int,
) -> None:
    monkeypatch.setattr(client, "WAIT_SECONDS", 0.5)
    control.script("POST /charges", fault)

    job = finished(enqueued(workspace))

    assert job.state == "succeeded"
    assert len(control.requests("POST /charges")) == charges_asked
    assert control.effects()["charge"] == 1


def test_a_charge_that_the_search_does_not_show_yet_is_waited_for(
    workspace: Workspace, control: ProviderControl
) -> None:
    control.times(lag=3600)
    control.script("POST /charges", Fault(status=502, effect=True))
    job = attempted(attempted(enqueued(workspace)))
    waits = (job.run_at - timezone.now()).total_seconds()
    control.times(lag=0)

    finished(job)

    assert waits > 3000
    assert [reason for _, reason in outcomes(job)] == ["http_502", "transient", ""]
    assert control.effects()["charge"] == 1


def test_a_charge_that_is_still_under_way_at_the_provider_is_waited_for(
    workspace: Workspace, control: ProviderControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "WAIT_SECONDS", 0.5)
    control.script("POST /charges", Fault(stall_before=5))
    job = attempted(attempted(enqueued(workspace)))
    asked = outcomes(job)
    control.wait_for("charge")

    finished(job)

    assert asked == [("failed", "timeout"), ("failed", "transient")]
    assert job.state == "succeeded"
    assert control.effects()["charge"] == 1


def test_a_search_that_never_completes_ends_uncertain_and_charges_nothing_more(
    workspace: Workspace, control: ProviderControl
) -> None:
    control.times(lag=3600)
    control.script("POST /charges", Fault(status=502, effect=True))

    job = finished(enqueued(workspace))

    assert (job.state, job.cause) == ("dead", "uncertain")
    assert control.effects()["charge"] == 1


def test_a_charge_that_is_not_ours_is_no_answer(
    workspace: Workspace, control: ProviderControl
) -> None:
    control.script("POST /charges", Fault(status=502))
    job = attempted(enqueued(workspace))
    client.charge(output(job, "reserve")["id"], 1)

    finished(job)

    assert (job.state, job.cause) == ("dead", "uncertain")
    assert control.effects()["charge"] == 1


@pytest.mark.parametrize(
    "body",
    ["not JSON", {"id": "\x00"}, {"id": "x" * 70_000}, {}],
    ids=["text", "nul", "big", "no id"],
)
def test_an_answer_that_cannot_be_used_is_not_asked_for_again(
    workspace: Workspace, control: ProviderControl, body: Any
) -> None:
    control.script("POST /charges", Fault(status=200, effect=True, body=body))

    job = finished(enqueued(workspace))

    assert job.state == "dead"
    assert len(control.requests("POST /charges")) == 1
    assert control.effects()["charge"] == 1


def test_a_refund_in_doubt_is_left_to_an_operator(
    workspace: Workspace, control: ProviderControl
) -> None:
    paid = output(finished(enqueued(workspace)), "charge")["id"]
    control.script("POST /refunds", Fault(status=502, effect=True))

    job = finished(refund.s(payment=paid).enqueue(workspace=workspace, key=f"refund-{paid}"))

    assert (job.state, job.cause, job.attempt) == ("dead", "uncertain", 1)
    assert control.effects()["refund"] == 1
