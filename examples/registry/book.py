"""What the registry knows: one line a registration, in a file that outlives it.

The key, the request and the registration are one line, read anew for every call under a lock on
the file: a registry that is started again, or a second one beside it, knows every key.
"""

from __future__ import annotations

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from examples.payments import ledger
from examples.payments.bank import Answer, refusal
from examples.payments.ledger import Record


class Registration(BaseModel):
    """What is asked for."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    workspace: str = Field(min_length=1, max_length=200)


@dataclass(frozen=True)
class Book:
    """The registrations in one file. Honours a key for as long as it `remembers` it."""

    path: Path
    remembers: timedelta = timedelta(hours=24)

    def register(self, body: bytes, *, key: str | None, request_id: str) -> Answer:
        """Register a workspace; the same key is answered the same, without another line.

        A call without a key, or with a new one, registers again: only a key says "the same".
        """
        try:
            request = Registration.model_validate_json(body)
        except ValidationError as error:
            return refusal(400, "invalid_request", "; ".join(e["msg"] for e in error.errors()))
        with self._locked():
            known = self._known(key)
            if known is None:
                return Answer(201, _shown(self._written(request, key, request_id)))
        if known["request"] != request.model_dump():
            return refusal(422, "key_reused", "This Idempotency-Key came with another workspace.")
        return Answer(201, _shown(known), {"Idempotent-Replayed": "true"})

    def registrations(self) -> list[Record]:
        """Every registration, oldest first."""
        return ledger.read(self.path)

    def _known(self, key: str | None) -> Record | None:
        since = datetime.now(UTC) - self.remembers
        for line in reversed(ledger.read(self.path)) if key else ():
            if line["key"] == key and datetime.fromisoformat(line["at"]) > since:
                return line
        return None

    def _written(self, request: Registration, key: str | None, request_id: str) -> Record:
        line: Record = {
            "effect": "registration",
            "id": f"registration_{secrets.token_hex(8)}",
            "at": datetime.now(UTC).isoformat(),
            "key": key,
            "request": request.model_dump(),
            "request_id": request_id,
        }
        ledger.append(self.path, line)
        return line

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self.path.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _shown(line: Record) -> dict[str, object]:
    return {"id": line["id"], **line["request"], "created_at": line["at"]}
