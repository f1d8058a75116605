"""How long to wait before the next attempt. Pure; randomness is an argument."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FLOOR = 1.0
SPREAD = 0.5
LONGEST = 1e9  # seconds, some 30 years: what a database can still add to its clock


def delay_after(
    count: int,
    *,
    base: float,
    cap: float,
    spread: float,
    own: float | None = None,
    retry_after: float | None = None,
) -> float:
    """Seconds to wait after failure or loss number ``count`` (from 1).

    ``min(cap, base * 2^(count-1)) * (1 + spread)``, with ``spread`` drawn by the caller from
    0 to ``SPREAD``; an exception's ``own`` delay replaces it. Never less than ``FLOOR``, so that a
    retry is never immediate, and never less than the provider's ``retry_after``. The jitter is
    only ever added, because a delay that jitter can shorten to nothing is no delay (Celery's full
    jitter can be 0 s).
    """
    wait = own
    if wait is None:
        doubled = base * 2.0 ** min(count - 1, 62)
        wait = min(cap, doubled) * (1.0 + spread)
    return min(LONGEST, max(FLOOR, wait, retry_after or 0.0))


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds asked for by a ``Retry-After`` header (RFC 9110 §10.2.3: seconds or an HTTP date).

    ``now`` must be aware. None where the header is absent or nonsense; never negative.
    """
    if not value:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:20]), LONGEST))
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:  # the asctime form, and "-0000": an HTTP date is always in UTC
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
