"""Job ids: UUIDv7 (RFC 9562 §5.7), which the standard library lacks before 3.14."""

from __future__ import annotations

import os
import time
import uuid
from datetime import datetime


def uuid7() -> uuid.UUID:
    """A time-ordered id: 48 bits of milliseconds, 12 of their fraction, then 62 random bits.

    Ids made one after another by one process are in order while its clock does not step back
    (RFC 9562 §6.2, method 3); those of hosts whose clocks differ are in no order. Never use it as
    a key that means "the same thing again".
    """
    millis, nanos = divmod(time.time_ns(), 1_000_000)
    value = (millis & 0xFFFFFFFFFFFF) << 80 | 0x7 << 76 | (nanos * 4096 // 1_000_000) << 64
    value |= 0x2 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    return uuid.UUID(int=value)


def first_id_of(moment: datetime) -> uuid.UUID:
    """The lowest id that could be made at ``moment``: a bound to compare with, not an id."""
    millis = max(0, int(moment.timestamp() * 1000))
    return uuid.UUID(int=(millis & 0xFFFFFFFFFFFF) << 80)
