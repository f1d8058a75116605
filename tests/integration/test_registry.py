"""The example registry: one key, one registration, whatever happens to the answers."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from examples.payments.faults import Fault
from examples.registry.book import Book
from examples.registry.control import RegistryControl
from examples.registry.server import running

pytestmark = pytest.mark.sqlite
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.jsonl"


@pytest.fixture
def control(path: Path) -> Iterator[RegistryControl]:
    with running(path) as registry:
        yield RegistryControl(registry.url)


def register(control: RegistryControl, key: str | None, workspace: str = "acme") -> httpx2.Response:
    headers = {"Idempotency-Key": key} if key else {}
    url = f"{control.url}/registrations"
    return httpx2.post(url, json={"workspace": workspace}, headers=headers, trust_env=False)


def test_the_same_key_is_answered_the_same(control: RegistryControl) -> None:
    first, second = register(control, "k"), register(control, "k")

    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert second.headers["Idempotent-Replayed"] == "true"
    assert len(control.registrations("acme")) == 1


@pytest.mark.parametrize("key", [None, "other"])
def test_another_key_registers_again(control: RegistryControl, key: str | None) -> None:
    register(control, "k")
    register(control, key)

    assert len(control.registrations("acme")) == 2


def test_a_key_means_one_workspace(control: RegistryControl) -> None:
    register(control, "k")

    assert register(control, "k", "other").status_code == 422
    assert control.registrations("other") == []


def test_one_key_from_many_sides_at_once_is_one_registration(
    control: RegistryControl, path: Path
) -> None:
    with running(path) as second, ThreadPoolExecutor(8) as pool:
        sides = [control, RegistryControl(second.url)] * 8
        answers = list(pool.map(lambda side: register(side, "k").json()["id"], sides))

    assert len(set(answers)) == 1
    assert len(control.registrations("acme")) == 1


def test_a_key_is_known_after_a_restart_and_forgotten_after_its_time(path: Path) -> None:
    body = b'{"workspace": "acme"}'
    first = Book(path).register(body, key="k", request_id="")

    again = Book(path).register(body, key="k", request_id="")
    later = Book(path, remembers=timedelta(0)).register(body, key="k", request_id="")

    assert first.body == again.body
    assert first.body != later.body


def test_down_is_down_until_it_is_up(control: RegistryControl) -> None:
    control.down(503)
    answers = [register(control, "k").status_code for _ in range(3)]
    control.up()

    assert answers == [503, 503, 503]
    assert register(control, "k").status_code == 201
    assert len(control.registrations("acme")) == 1


def test_a_fault_meets_as_many_calls_as_it_says(control: RegistryControl) -> None:
    control.script(Fault(status=429, retry_after=7, times=2))
    answers = [register(control, "k") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [429, 429, 201]
    assert answers[0].headers["Retry-After"] == "7"


def test_an_answer_can_get_lost_after_the_registration(control: RegistryControl) -> None:
    control.script(Fault(drop=True, effect=True))
    with pytest.raises(httpx2.RemoteProtocolError):
        register(control, "k")

    assert len(control.registrations("acme")) == 1


@pytest.mark.parametrize(
    ("method", "route", "body", "status"),
    [
        ("POST", "/registrations", "{}", 400),
        ("POST", "/registrations", "no JSON", 400),
        ("POST", "/registrations", '{"workspace": ""}', 400),
        ("POST", "/control", '[{"status": "x"}]', 400),
        ("POST", "/nothing", "{}", 404),
        ("GET", "/nothing", "", 404),
        ("POST", "/registrations", "x" * 70_000, 413),
    ],
)
def test_bad_input_is_refused_and_registers_nothing(
    control: RegistryControl, path: Path, method: str, route: str, body: Any, status: int
) -> None:
    answer = httpx2.request(method, control.url + route, content=body, trust_env=False)

    assert answer.status_code == status
    assert answer.json()["detail"]
    assert not path.exists()


def test_it_runs_as_a_process_of_its_own(path: Path) -> None:
    command = [sys.executable, "-m", "examples.registry.server", "--ledger", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
        registered = register(RegistryControl(url), "k").status_code
        process.send_signal(signal.SIGTERM)

        assert process.wait(30) == 0
    assert registered == 201
