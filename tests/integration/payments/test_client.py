"""The payment client against the real provider: what it sends, and what it raises as it is."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from examples.payments import client
from examples.payments.control import ProviderControl
from examples.payments.faults import Fault
from jobs.tracing import Trace, carrying


def test_a_payment_goes_through_every_call(control: ProviderControl) -> None:
    held = client.hold("k-1", "o-1")
    charged = client.charge(held["id"], 4200)
    receipt = client.send_receipt(charged["id"])
    refunded = client.refund(charged["id"])

    assert client.charges(held["id"]).charges == [charged]
    assert receipt["payment"] == refunded["payment"] == charged["id"]
    assert control.effects() == {"hold": 1, "charge": 1, "receipt": 1, "refund": 1}


def test_the_key_reaches_the_provider_and_every_call_has_its_own_request_id(
    control: ProviderControl,
) -> None:
    client.hold("k-1", "o-1")
    client.hold("k-1", "o-1")

    first, second = control.requests("POST /holds")

    assert (first["key"], second["key"]) == ("k-1", "k-1")
    assert first["request_id"] != second["request_id"]
    assert control.effects()["hold"] == 1


def test_a_call_carries_the_request_id_that_its_job_came_with(control: ProviderControl) -> None:
    with carrying(Trace(request_id="r-7", traceparent="00-trace", job_id="j-1")):
        client.hold("k-1", "o-1")
    with carrying(Trace(job_id="j-1")):
        client.hold("k-1", "o-1")

    calls = control.requests("POST /holds")
    assert [(call["request_id"], call["traceparent"]) for call in calls] == [
        ("r-7", "00-trace"),
        ("j-1", None),
    ]


def test_the_search_says_until_when_it_is_complete(control: ProviderControl) -> None:
    control.times(lag=60)

    found = client.charges("hold_0")

    assert found.charges == []
    assert datetime.now(UTC) - found.complete_until >= timedelta(seconds=60)


def test_a_refused_status_keeps_its_answer_for_the_kernel(control: ProviderControl) -> None:
    control.script("POST /charges", Fault(status=429, retry_after=7))

    with pytest.raises(httpx2.HTTPStatusError) as caught:
        client.charge("hold_0", 1)

    assert caught.value.response.status_code == 429
    assert caught.value.response.headers["retry-after"] == "7"


def test_a_redirect_is_an_error_and_not_followed(control: ProviderControl) -> None:
    control.script("POST /charges", Fault(status=307))

    with pytest.raises(httpx2.HTTPStatusError):
        client.charge("hold_0", 1)

    assert len(control.requests("POST /charges")) == 1


def test_a_dropped_connection_is_raised_as_the_library_says_it(control: ProviderControl) -> None:
    control.script("POST /charges", Fault(drop=True))

    with pytest.raises(httpx2.RemoteProtocolError):
        client.charge("hold_0", 1)


def test_a_stall_longer_than_the_wait_is_a_read_timeout(
    control: ProviderControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "WAIT_SECONDS", 0.2)
    control.script("POST /charges", Fault(stall_before=60))

    with pytest.raises(httpx2.ReadTimeout):
        client.charge("hold_0", 1)


def test_a_provider_that_is_not_there_is_a_connect_error(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings.PAYMENTS_URL = f"http://127.0.0.1:{port}"

    with pytest.raises(httpx2.ConnectError):
        client.hold("k-1", "o-1")


def test_proxies_of_the_environment_are_ignored(
    control: ProviderControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    assert client.hold("k-1", "o-1")["order_id"] == "o-1"


def test_the_address_comes_from_the_environment_where_no_setting_says_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PAYMENTS_URL = None
    monkeypatch.setenv("PAYMENTS_URL", "http://127.0.0.1:1")
    assert client.provider_url() == "http://127.0.0.1:1"

    monkeypatch.delenv("PAYMENTS_URL")
    with pytest.raises(ImproperlyConfigured, match="PAYMENTS_URL is not set"):
        client.provider_url()
