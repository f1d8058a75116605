"""What the provider knows and does: holds, charges, receipts and refunds, kept in a ledger.

Only a hold honours an idempotency key. The key, the request and the deed are one ledger line, so a
provider that was killed and started again on the same ledger still knows every key. Charges and
refunds happen once for every call that reaches them. A charge shows up in the search only after
``lag``. The search says until when it is complete: a call that arrived before that moment either
shows or will never charge. Of later calls, what is not shown proves nothing.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from examples.payments import ledger
from examples.payments.ledger import Record


@dataclass(frozen=True)
class Answer:
    """An HTTP answer: ``body`` is JSON, or a string that is sent as it is."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


def refusal(status: int, code: str, detail: str) -> Answer:
    """An answer that says that nothing was done, and why."""
    return Answer(status, {"code": code, "detail": detail})


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Hold(_Request):
    order_id: str = Field(min_length=1, max_length=200)


class Charge(_Request):
    hold: str
    cents: int = Field(gt=0)


class Receipt(_Request):
    payment: str


class Refund(_Request):
    payment: str


@dataclass(frozen=True)
class Deed:
    """A sort of effect: the request it takes, and the earlier deed that the request names."""

    effect: str
    request: type[_Request]
    keyed: bool = False
    names: tuple[str, str] | None = None


DEEDS: dict[str, Deed] = {
    "POST /holds": Deed("hold", Hold, keyed=True),
    "POST /charges": Deed("charge", Charge, names=("hold", "hold")),
    "POST /receipts": Deed("receipt", Receipt, names=("payment", "charge")),
    "POST /refunds": Deed("refund", Refund, names=("payment", "charge")),
}


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Bank:
    """The provider's state over one ledger file. Safe to use from many threads of one process."""

    def __init__(
        self,
        path: Path,
        *,
        remembers: timedelta,
        lag: timedelta,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.remembers = remembers
        self.lag = lag
        self._path = path
        self._now = now
        self._records = ledger.read(path)
        self._arrivals: dict[int, datetime] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Around one call, from its arrival to its effect: the search is not complete past it."""
        arrival = next(self._numbers)
        with self._lock:
            self._arrivals[arrival] = self._now()
        try:
            yield
        finally:
            with self._lock:
                del self._arrivals[arrival]

    def do(self, route: str, body: bytes, *, key: str | None, request_id: str) -> Answer:
        """Do what ``POST`` on ``route`` asks, or say why not. A refusal leaves no effect."""
        deed = DEEDS[route]
        try:
            request = deed.request.model_validate_json(body).model_dump()
        except ValidationError as error:
            return refusal(400, "invalid_request", "; ".join(e["msg"] for e in error.errors()))
        with self._lock:
            known = self._known(key) if deed.keyed and key else None
            if known is not None:
                return _replay(known, request)
            missing = self._missing(deed, request)
            return missing or self._done(deed, request, key if deed.keyed else None, request_id)

    def search(self, hold: str) -> Answer:
        """The charges on ``hold`` that are visible by now, and until when the list is complete."""
        with self._lock:
            complete_until = min([self._now() - self.lag, *self._arrivals.values()])
            charges = [
                _shown(record)
                for record in self._records
                if record["effect"] == "charge"
                and record["request"]["hold"] == hold
                and datetime.fromisoformat(record["at"]) <= complete_until
            ]
        return Answer(200, {"charges": charges, "complete_until": complete_until.isoformat()})

    def effects(self) -> dict[str, int]:
        """How often each effect happened, in all the ledger's time."""
        with self._lock:
            done = [record["effect"] for record in self._records]
        return {deed.effect: done.count(deed.effect) for deed in DEEDS.values()}

    def _known(self, key: str) -> Record | None:
        since = self._now() - self.remembers
        for record in reversed(self._records):
            if record["key"] == key and datetime.fromisoformat(record["at"]) > since:
                return record
        return None

    def _missing(self, deed: Deed, request: dict[str, Any]) -> Answer | None:
        if deed.names is None:
            return None
        name, effect = deed.names
        if any(r["id"] == request[name] and r["effect"] == effect for r in self._records):
            return None
        return refusal(404, f"unknown_{effect}", f"There is no {effect} {request[name]!r} here.")

    def _done(
        self, deed: Deed, request: dict[str, Any], key: str | None, request_id: str
    ) -> Answer:
        record: Record = {
            "effect": deed.effect,
            "id": f"{deed.effect}_{secrets.token_hex(8)}",
            "at": self._now().isoformat(),
            "key": key,
            "request": request,
            "request_id": request_id,
        }
        ledger.append(self._path, record)
        self._records.append(record)
        return Answer(201, _shown(record))


def _replay(record: Record, request: dict[str, Any]) -> Answer:
    if record["request"] != request:
        return refusal(422, "key_reused", "This Idempotency-Key came with another request before.")
    return Answer(201, _shown(record), {"Idempotent-Replayed": "true"})


def _shown(record: Record) -> dict[str, Any]:
    return {"id": record["id"], **record["request"], "created_at": record["at"]}
