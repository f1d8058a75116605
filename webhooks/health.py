"""When an endpoint is failing, and when it is given up. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from webhooks.states import EndpointState, Reason

SILENT_FOR = timedelta(hours=72)
SPANNING = timedelta(hours=24)
DEAD_DELIVERIES = 10
FIRST_PROBE = 60.0
"""Seconds until the first probe; the pauses double from there, up to an hour."""
QUICK = 2.0
"""Seconds within which a fast endpoint answers."""


@dataclass(frozen=True)
class Record:
    """What is known of an endpoint at a final failure, this one counted.

    ``heard_at`` is its last 2xx, or else when it was made.
    """

    failures: int
    first_failed_at: datetime
    heard_at: datetime


def after_final_failure(
    record: Record, now: datetime, asked: Reason | None
) -> tuple[EndpointState, Reason | None]:
    """The state that a final failure leads to, and why it is disabled if it is.

    One quiet blip never disables: it takes days without any success, many deliveries, and
    failures that are spread over a day.
    """
    if asked is not None:
        return EndpointState.DISABLED, asked
    if now - record.heard_at >= SILENT_FOR and is_long(record, now):
        return EndpointState.DISABLED, Reason.SUSTAINED
    return EndpointState.FAILING, None


def is_long(record: Record, now: datetime) -> bool:
    """Whether many deliveries died, over more than a day."""
    spanning = now - record.first_failed_at >= SPANNING
    return record.failures >= DEAD_DELIVERIES and spanning


def is_slow(code: str, seconds: float) -> bool:
    """Whether an answer took so long that the endpoint belongs with the slow ones."""
    return code == "timeout" or seconds > QUICK


def is_quick(code: str, seconds: float) -> bool:
    """Whether an answer shows that it belongs with the fast ones."""
    return code == "ok" and seconds <= QUICK
