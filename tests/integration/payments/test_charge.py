"""Charging an order while the provider behaves, refuses, slows down and goes away."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from examples.payments import client, ledger
from examples.payments.control import ProviderControl
from examples.payments.faults import Fault
from examples.payments.models import Booking
from jobs.models import Job
from tests.integration.payments.running import attempted, enqueued, finished, outcomes, steps
from workspaces.models import Workspace

pytestmark = pytest.mark.sqlite


def test_an_order_is_held_charged_booked_and_receipted_once(
    workspace: Workspace, control: ProviderControl, path: Path
) -> None:
    job = finished(enqueued(workspace))

    (charged,) = [line for line in ledger.read(path) if line["effect"] == "charge"]
    assert job.state == "succeeded"
    assert job.result is not None
    assert job.result["payment"] == charged["id"]
    assert ledger.counts(path) == {"hold": 1, "charge": 1, "receipt": 1}
    assert [booking.payment for booking in Booking.objects.all()] == [charged["id"]]
    assert dict(job.steps.values_list("name", "effect")) == {
        "reserve": "keyed",
        "charge": "once",
        "book": "local",
        "receipt": "repeatable",
    }


def test_a_503_is_tried_again_with_the_same_key(
    workspace: Workspace, control: ProviderControl
) -> None:
    control.script("POST /holds", Fault(status=503))

    job = finished(enqueued(workspace))

    keys = {call["key"] for call in control.requests("POST /holds")}
    assert outcomes(job) == [("failed", "http_503"), ("succeeded", "")]
    assert len(control.requests("POST /holds")) == 2
    assert len(keys) == 1
    assert control.effects()["hold"] == 1


def test_a_503_after_the_hold_was_made_makes_no_second_hold(
    workspace: Workspace, control: ProviderControl
) -> None:
    control.script("POST /holds", Fault(status=503, effect=True))

    job = finished(enqueued(workspace))

    assert job.state == "succeeded"
    assert control.effects()["hold"] == 1


def test_a_rate_limited_charge_waits_as_long_as_the_provider_says(
    workspace: Workspace, control: ProviderControl
) -> None:
    control.script("POST /charges", Fault(status=429, retry_after=120))
    job = attempted(enqueued(workspace))
    waits = (job.run_at - timezone.now()).total_seconds()
    refused = steps(job)

    finished(job)

    assert waits > 100
    assert refused == {"reserve": "done", "charge": "not_done"}
    assert job.state == "succeeded"
    assert control.effects() == {"hold": 1, "charge": 1, "receipt": 1, "refund": 0}
    assert control.requests("GET /charges") == []


def test_a_refused_card_is_not_tried_again(workspace: Workspace, control: ProviderControl) -> None:
    control.script("POST /charges", Fault(status=402))

    job = finished(enqueued(workspace))

    assert (job.state, job.cause, job.attempt) == ("dead", "terminal", 1)
    assert steps(job)["charge"] == "not_done"


def test_a_provider_that_stays_down_exhausts_a_keyed_step_and_leaves_no_doubt(
    workspace: Workspace, control: ProviderControl
) -> None:
    control.down("POST /holds")

    job = finished(enqueued(workspace))

    assert (job.state, job.cause, job.attempt) == ("dead", "exhausted", 4)
    assert control.effects()["hold"] == 0


def test_a_provider_that_is_gone_leaves_no_doubt_about_the_charge(
    workspace: Workspace, control: ProviderControl, settings: Settings
) -> None:
    control.script("POST /charges", Fault(status=429))
    job = attempted(enqueued(workspace))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings.PAYMENTS_URL = f"http://127.0.0.1:{port}"

    finished(job)

    assert (job.state, job.cause) == ("dead", "exhausted")
    assert steps(job)["charge"] == "not_done"


@pytest.mark.parametrize("route", ["POST /holds", "POST /receipts"])
def test_a_stall_past_the_timeout_is_tried_again(
    workspace: Workspace,
    control: ProviderControl,
    monkeypatch: pytest.MonkeyPatch,
    route: str,
) -> None:
    monkeypatch.setattr(client, "WAIT_SECONDS", 0.5)
    control.script(route, Fault(stall_before=60))  # type: ignore[arg-type]

    job = finished(enqueued(workspace))

    assert outcomes(job) == [("failed", "timeout"), ("succeeded", "")]
    assert control.effects()["charge"] == 1


def test_the_same_order_enqueued_twice_is_one_job(
    workspace: Workspace, control: ProviderControl
) -> None:
    first, second = enqueued(workspace), enqueued(workspace)
    finished(first)
    third = enqueued(workspace)

    assert (first.created, second.created, third.created) == (True, False, False)
    assert first.pk == second.pk == third.pk
    assert Job.objects.count() == 1
    assert control.effects()["charge"] == 1
