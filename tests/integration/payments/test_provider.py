"""The provider over real sockets, in this process and as a process of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from examples.payments import ledger
from examples.payments.control import ProviderControl
from examples.payments.faults import Fault
from examples.payments.provider import BODY_LIMIT, Provider, running

ROOT = Path(__file__).parents[3]
IMPATIENT = httpx2.Timeout(30.0, read=0.2)


@pytest.fixture
def http(provider: Provider) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=provider.url, trust_env=False, timeout=30.0) as client:
        yield client


def hold(http: httpx2.Client, key: str = "k-1", **extra: Any) -> httpx2.Response:
    return http.post("/holds", json={"order_id": "o-1"}, headers={"Idempotency-Key": key}, **extra)


def charge(http: httpx2.Client, **extra: Any) -> httpx2.Response:
    hold_id = hold(http).json()["id"]
    return http.post("/charges", json={"hold": hold_id, "cents": 100}, **extra)


def test_sixteen_calls_at_once_with_one_key_make_one_hold(http: httpx2.Client, path: Path) -> None:
    ids: list[str] = []
    start = threading.Barrier(16)

    def call() -> None:
        start.wait()
        ids.append(hold(http).json()["id"])

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(ids) == 16
    assert len(set(ids)) == 1
    assert ledger.counts(path) == {"hold": 1}


def test_a_replayed_answer_says_so(http: httpx2.Client) -> None:
    first, second = hold(http), hold(http)

    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert first.headers["Request-Id"] != second.headers["Request-Id"]


def test_a_scripted_refusal_has_no_effect_and_is_over_after_its_times(
    http: httpx2.Client, control: ProviderControl
) -> None:
    control.script("POST /holds", Fault(status=429, retry_after=7, times=2))

    answers = [hold(http) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [429, 429, 201]
    assert [answer.headers.get("Retry-After") for answer in answers] == ["7", "7", None]
    assert control.effects()["hold"] == 1


def test_a_provider_that_is_down_stays_down_until_it_is_told(
    http: httpx2.Client, control: ProviderControl
) -> None:
    control.down("POST /holds")
    down = [hold(http).status_code for _ in range(3)]
    control.script("POST /holds")

    assert down == [503] * 3
    assert hold(http).status_code == 201


def test_a_502_can_hide_an_effect(http: httpx2.Client, control: ProviderControl) -> None:
    control.script("POST /charges", Fault(status=502, effect=True))

    assert charge(http).status_code == 502
    assert control.effects()["charge"] == 1


@pytest.mark.parametrize(
    ("fault", "charges"), [(Fault(drop=True), 0), (Fault(drop=True, effect=True), 1)]
)
def test_a_dropped_connection_tells_nothing_about_the_effect(
    http: httpx2.Client, control: ProviderControl, fault: Fault, charges: int
) -> None:
    control.script("POST /charges", fault)

    with pytest.raises(httpx2.RemoteProtocolError):
        charge(http)

    assert control.effects()["charge"] == charges


def test_a_late_answer_has_had_its_effect(http: httpx2.Client, control: ProviderControl) -> None:
    control.script("POST /charges", Fault(stall_after=60))

    with pytest.raises(httpx2.ReadTimeout):
        charge(http, timeout=IMPATIENT)

    control.wait_for("charge")


def test_a_call_stalled_before_its_effect_has_none_yet(
    http: httpx2.Client, control: ProviderControl
) -> None:
    control.script("POST /charges", Fault(stall_before=60))

    with pytest.raises(httpx2.ReadTimeout):
        charge(http, timeout=IMPATIENT)

    assert control.effects()["charge"] == 0


def test_a_client_that_gave_up_does_not_stop_the_effect(
    http: httpx2.Client, control: ProviderControl
) -> None:
    control.script("POST /charges", Fault(stall_before=0.5))

    with pytest.raises(httpx2.ReadTimeout):
        charge(http, timeout=IMPATIENT)

    control.wait_for("charge")


@pytest.mark.parametrize("body", ["", "not JSON", {"id": "\x00"}, ["x" * 70_000]])
def test_a_200_can_carry_any_nonsense(
    http: httpx2.Client, control: ProviderControl, body: Any
) -> None:
    control.script("POST /charges", Fault(status=200, effect=True, body=body))

    answer = charge(http)

    assert (answer.text if isinstance(body, str) else answer.json()) == body


def test_a_charge_is_found_when_its_lag_is_over(
    http: httpx2.Client, control: ProviderControl
) -> None:
    control.times(lag=3600)
    charged = charge(http).json()
    find = {"hold": charged["hold"]}
    early = http.get("/charges", params=find).json()["charges"]
    control.times(lag=0)
    late = http.get("/charges", params=find).json()["charges"]

    assert early == []
    assert late == [charged]


def test_a_forgotten_key_makes_a_second_hold(http: httpx2.Client, control: ProviderControl) -> None:
    first = hold(http).json()
    control.times(remembers=0)

    assert hold(http).json() != first
    assert control.effects()["hold"] == 2


def test_the_requests_show_keys_ids_and_what_went_wrong(
    http: httpx2.Client, control: ProviderControl
) -> None:
    control.script("POST /holds", Fault(status=503))
    hold(http, key="k-7")
    http.post("/holds", json={"order_id": "o-1"}, headers={"X-Request-ID": "r-7"})

    first, second = control.requests("POST /holds")

    assert (first["key"], first["worked"], first["fault"]) == ("k-7", False, {"status": 503})
    assert (second["request_id"], second["worked"], second["fault"]) == ("r-7", True, {})


@pytest.mark.parametrize(
    "told",
    [
        {"script": {"POST /nowhere": []}},
        {"script": {"POST /holds": [{"status": 1}]}},
        {"lag": -1},
        {"unknown": 1},
        None,
    ],
)
def test_a_control_that_makes_no_sense_changes_nothing(http: httpx2.Client, told: Any) -> None:
    answer = http.post("/control", json=told)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_control")
    assert hold(http).status_code == 201


def test_unknown_places_and_bodies_without_a_length_are_refused(http: httpx2.Client) -> None:
    assert http.get("/holds").json()["code"] == "unknown_route"
    assert http.get("/charges").json()["code"] == "invalid_request"
    assert http.post("/holds", content=iter([b"{}"])).json()["code"] == "length_required"


def test_a_body_over_the_limit_is_refused_before_it_is_sent(provider: Provider) -> None:
    head = f"POST /holds HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_LIMIT + 1}\r\n\r\n"
    with socket.create_connection(provider.server_address[:2], timeout=30) as raw:  # type: ignore[arg-type]
        raw.sendall(head.encode())

        assert raw.recv(64).startswith(b"HTTP/1.1 413 ")


def test_it_listens_on_the_loopback_interface_only(provider: Provider) -> None:
    assert provider.socket.getsockname()[0] == "127.0.0.1"


def test_a_provider_that_stopped_refuses_connections(path: Path) -> None:
    with running(path) as provider:
        port = provider.server_address[1]

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)), timeout=30)


@contextmanager
def process(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "examples.payments.provider", "--ledger", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield running, running.stdout.readline().strip()
        finally:
            running.kill()


def test_a_killed_provider_leaves_every_effect_in_its_ledger(path: Path) -> None:
    with process(path) as (first, url), httpx2.Client(base_url=url, trust_env=False) as http:
        ProviderControl(url).script("POST /charges", Fault(stall_after=60))
        with pytest.raises(httpx2.ReadTimeout):
            charge(http, timeout=IMPATIENT)
        ProviderControl(url).wait_for("charge")
        first.send_signal(signal.SIGKILL)
        first.wait(30)
        before = ledger.read(path)
    with process(path) as (_, url), httpx2.Client(base_url=url, trust_env=False) as http:
        again = hold(http).json()

    assert [record["effect"] for record in before] == ["hold", "charge"]
    assert again["id"] == before[0]["id"]
    assert ledger.read(path) == before


def test_sigterm_ends_it_well_even_with_a_stalled_call(path: Path) -> None:
    with process(path) as (running, url), httpx2.Client(base_url=url, trust_env=False) as http:
        ProviderControl(url).script("POST /holds", Fault(stall_before=60))
        with pytest.raises(httpx2.ReadTimeout):
            hold(http, timeout=IMPATIENT)
        running.send_signal(signal.SIGTERM)

        assert running.wait(30) == 0

    assert ledger.read(path) == []
