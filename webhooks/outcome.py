"""What an answer means for the delivery. Pure.

Success is any 2xx. Transient is what a later request may not meet; everything else is permanent,
since repeating a request that was understood and refused helps nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.backoff import SPREAD, parse_retry_after
from webhooks.egress import Reply
from webhooks.states import Reason

DELAYS = (30.0, 300.0)
"""Seconds before the second and third request; jitter is only added."""
LONGEST_DELAY = 900.0
TRANSIENT = frozenset({"dns", "connect", "timeout", "reset", "protocol"})
TRANSIENT_STATUSES = frozenset({408, 425, 429})
THROTTLED = frozenset({429, 503})
VERDICT_HEADER = "webhook-delivery"


@dataclass(frozen=True)
class Outcome:
    """``again``: a later request may succeed. ``disables``: the endpoint asked for no more.

    ``retry_after`` is what the receiver asked for, in seconds; ``throttled`` says that it asked
    on behalf of all requests.
    """

    code: str
    sentence: str
    ok: bool = False
    again: bool = False
    disables: Reason | None = None
    retry_after: float | None = None
    throttled: bool = False


def outcome_of(reply: Reply, now: datetime) -> Outcome:
    """What came of one request."""
    if reply.code != "ok" or reply.status is None:
        code = "protocol" if reply.code == "ok" else reply.code
        return Outcome(code, _SENTENCES[code], again=code in TRANSIENT)
    status = reply.status
    said = reply.headers.get(VERDICT_HEADER, "").strip().lower()
    if 200 <= status <= 299:
        return Outcome("ok", "The receiver took it.", ok=True)
    if said == "disable":
        return Outcome("aborted", "The receiver wants no more.", disables=Reason.RECEIVER)
    if said == "abort-message":
        return Outcome("aborted", "The receiver does not want this message.")
    if status == 410:
        return Outcome("gone", "The receiver is gone for good.", disables=Reason.GONE)
    if 300 <= status <= 399:
        return Outcome("redirect_refused", f"It answered {status}: redirects are not followed.")
    if status in TRANSIENT_STATUSES or status >= 500:
        wait = parse_retry_after(reply.headers.get("retry-after"), now)
        throttled = status in THROTTLED and bool(wait)
        return Outcome(
            f"http_{status}",
            f"It answered {status}.",
            again=True,
            retry_after=wait,
            throttled=throttled,
        )
    return Outcome(f"http_{status}", f"It answered {status}, which no repetition changes.")


def wait_before_next(
    failures: int, spread: float, retry_after: float | None, own: Sequence[float] | None = None
) -> float:
    """Seconds until the next request after ``failures`` (from 0) earlier ones and this one.

    ``spread`` is drawn by the caller from 0 to ``SPREAD``. What the receiver asked for counts
    where it is more, up to 15 minutes.
    """
    delays = own or DELAYS
    base = delays[min(failures, len(delays) - 1)]
    asked = min(max(retry_after or 0.0, base), max(LONGEST_DELAY, base))
    return asked + base * min(spread, SPREAD)


_SENTENCES = {
    "dns": "Its name has no address, or none in time.",
    "connect": "No connection to it could be made.",
    "timeout": "It did not answer in time.",
    "reset": "It broke the connection off.",
    "protocol": "What it answered is no HTTP.",
    "tls": "Its certificate is not one to be trusted.",
    "blocked_address": "The destination is not allowed.",
    "config": "The signing secret or the address cannot be used.",
}


def refused_by_us(code: str) -> Outcome:
    """Where nothing was sent at all."""
    return Outcome(code, _SENTENCES[code])
