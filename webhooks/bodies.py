"""How a message is written: once, as bytes, the same for every endpoint and every repetition."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from jobs.models.ids import uuid7
from workspaces.redaction import redact, scrub_within

LARGEST = 256 * 1024
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id() -> str:
    """``msg_`` and 26 characters that sort by time; no dot, which signatures could not bear."""
    value, letters = uuid7().int, []
    for _ in range(26):
        value, rest = divmod(value, 32)
        letters.append(_CROCKFORD[rest])
    return f"msg_{''.join(reversed(letters))}"


def written(message_id: str, event_type: str, at: datetime, data: dict[str, Any]) -> bytes:
    """The body. Secrets that somebody wrote into a field are hidden; too much data is left out."""
    told = {
        "id": message_id,
        "type": event_type,
        "timestamp": at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "data": scrub_within(redact(data)),
    }
    body = _bytes(told)
    if len(body) <= LARGEST:
        return body
    thin = {name: data[name] for name in ("subject", "sequence") if name in data}
    return _bytes({**told, "data": {**thin, "left_out": True}})


def _bytes(told: dict[str, Any]) -> bytes:
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode(errors="replace")
