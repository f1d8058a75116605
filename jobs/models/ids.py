"""Job ids: UUIDv7 (RFC 9562 §5.7), which the standard library lacks before 3.14."""

from __future__ import annotations

import os
import time
import uuid
from datetime import datetime


def uuid7() -> uuid.UUID:
    """A time-ordered id: 48 bits of milliseconds, then 74 random bits.

    Order is by millisecond; ids made within one millisecond, or on hosts whose clocks differ,
    are in no order. Never use it as a key that means "the same thing again".
    """
    millis = time.time_ns() // 1_000_000
    tail = int.from_bytes(os.urandom(10), "big")
    value = (millis & 0xFFFFFFFFFFFF) << 80 | tail
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)


def first_id_of(moment: datetime) -> uuid.UUID:
    """The lowest id that could be made at ``moment``: a bound to compare with, not an id."""
    millis = max(0, int(moment.timestamp() * 1000))
    return uuid.UUID(int=(millis & 0xFFFFFFFFFFFF) << 80)
