"""The provider's bookkeeping: keys, search lag, refusals, and what a restart still knows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from examples.payments import ledger
from examples.payments.bank import Answer, Bank

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Clock:
    moment: datetime = field(default=NOON)

    def __call__(self) -> datetime:
        return self.moment


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def bank(path: Path, clock: Clock) -> Bank:
    return open_bank(path, clock)


def open_bank(path: Path, clock: Clock) -> Bank:
    return Bank(path, remembers=timedelta(hours=1), lag=timedelta(seconds=5), now=clock)


def hold(bank: Bank, order_id: str = "o-1", key: str | None = "k-1") -> Answer:
    body = json.dumps({"order_id": order_id}).encode()
    return bank.do("POST /holds", body, key=key, request_id="r-1")


def charge(bank: Bank, hold_id: str, cents: int = 100, key: str | None = None) -> Answer:
    body = json.dumps({"hold": hold_id, "cents": cents}).encode()
    return bank.do("POST /charges", body, key=key, request_id="r-1")


def test_the_same_key_and_request_are_answered_with_the_same_hold(bank: Bank) -> None:
    first, second = hold(bank), hold(bank)

    assert (first.status, second.status) == (201, 201)
    assert first.body == second.body
    assert second.headers == {"Idempotent-Replayed": "true"}
    assert bank.effects()["hold"] == 1


def test_the_same_key_with_another_request_is_refused(bank: Bank) -> None:
    hold(bank)

    answer = hold(bank, order_id="o-2")

    assert (answer.status, answer.body["code"]) == (422, "key_reused")
    assert bank.effects()["hold"] == 1


def test_another_key_or_none_makes_another_hold(bank: Bank) -> None:
    ids = {hold(bank, key=key).body["id"] for key in ("k-1", "k-2", None, None)}

    assert len(ids) == 4


@pytest.mark.parametrize(("minutes", "holds"), [(59, 1), (60, 2)])
def test_a_key_is_forgotten_after_its_time(
    bank: Bank, clock: Clock, minutes: int, holds: int
) -> None:
    hold(bank)
    clock.moment += timedelta(minutes=minutes)

    hold(bank)

    assert bank.effects()["hold"] == holds


def test_every_charge_charges_even_with_a_key(bank: Bank) -> None:
    hold_id = hold(bank).body["id"]

    ids = {charge(bank, hold_id, key="k-1").body["id"] for _ in range(2)}

    assert len(ids) == 2
    assert bank.effects()["charge"] == 2


def test_a_charge_is_found_only_after_the_lag_and_the_search_says_so(
    bank: Bank, clock: Clock
) -> None:
    hold_id = hold(bank).body["id"]
    charged = charge(bank, hold_id).body
    clock.moment += timedelta(seconds=4)
    early = bank.search(hold_id).body
    clock.moment += timedelta(seconds=1)
    late = bank.search(hold_id).body

    assert early == {"charges": [], "complete_until": "2026-03-01T11:59:59+00:00"}
    assert late == {"charges": [charged], "complete_until": "2026-03-01T12:00:00+00:00"}


def test_the_search_is_not_complete_past_a_call_that_has_arrived_and_not_worked_yet(
    bank: Bank, clock: Clock
) -> None:
    with bank.receiving():
        clock.moment += timedelta(minutes=1)
        held_back = bank.search("hold_0").body["complete_until"]
    after = bank.search("hold_0").body["complete_until"]

    assert held_back == "2026-03-01T12:00:00+00:00"
    assert after == "2026-03-01T12:00:55+00:00"


def test_the_search_shows_the_charges_of_one_hold(bank: Bank, clock: Clock) -> None:
    first, second = hold(bank, key="k-1").body["id"], hold(bank, key="k-2").body["id"]
    charge(bank, first, cents=100)
    charge(bank, second, cents=200)
    clock.moment += timedelta(minutes=1)

    assert [found["cents"] for found in bank.search(second).body["charges"]] == [200]


@pytest.mark.parametrize(
    ("route", "body", "status", "code"),
    [
        ("POST /holds", b"", 400, "invalid_request"),
        ("POST /holds", b"{", 400, "invalid_request"),
        ("POST /holds", b"{}", 400, "invalid_request"),
        ("POST /holds", b'{"order_id": 7}', 400, "invalid_request"),
        ("POST /holds", b'{"order_id": "o", "extra": 1}', 400, "invalid_request"),
        ("POST /charges", b'{"hold": "hold_0", "cents": 0}', 400, "invalid_request"),
        ("POST /charges", b'{"hold": "hold_0", "cents": 1}', 404, "unknown_hold"),
        ("POST /receipts", b'{"payment": "charge_0"}', 404, "unknown_charge"),
        ("POST /refunds", b'{"payment": "charge_0"}', 404, "unknown_charge"),
    ],
)
def test_a_bad_request_is_refused_and_leaves_nothing(
    bank: Bank, path: Path, route: str, body: bytes, status: int, code: str
) -> None:
    answer = bank.do(route, body, key="k-1", request_id="r-1")

    assert (answer.status, answer.body["code"]) == (status, code)
    assert ledger.read(path) == []


def test_a_refused_request_does_not_use_up_its_key(bank: Bank) -> None:
    bank.do("POST /holds", b"{}", key="k-1", request_id="r-1")

    assert hold(bank).status == 201


def test_a_provider_started_again_on_its_ledger_knows_keys_and_deeds(
    bank: Bank, path: Path, clock: Clock
) -> None:
    before = hold(bank).body
    charge(bank, before["id"])

    again = open_bank(path, clock)

    assert hold(again).body == before
    assert again.effects() == {"hold": 1, "charge": 1, "receipt": 0, "refund": 0}


def test_the_ledger_has_one_line_for_each_deed(bank: Bank, path: Path) -> None:
    hold_id = hold(bank).body["id"]
    hold(bank)
    paid = charge(bank, hold_id).body["id"]
    bank.do("POST /receipts", json.dumps({"payment": paid}).encode(), key=None, request_id="r")

    assert ledger.counts(path) == {"hold": 1, "charge": 1, "receipt": 1}
    assert [line["key"] for line in ledger.read(path)] == ["k-1", None, None]


def test_a_deed_that_the_ledger_cannot_keep_is_not_done(tmp_path: Path, clock: Clock) -> None:
    bank = open_bank(tmp_path / "no such folder" / "ledger.jsonl", clock)

    with pytest.raises(FileNotFoundError):
        hold(bank)

    assert bank.effects()["hold"] == 0
