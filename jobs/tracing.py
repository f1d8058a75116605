"""By which ids work is known from request to provider: they travel with it, unasked.

While a request is answered or an attempt runs, what it enqueues is born with its ids, and calls to
other systems carry them when they send ``outgoing_headers()``.
*Hole:* threads that a handler starts itself know nothing of it, unless they run in a copy of its
context.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


@dataclass(frozen=True)
class Trace:
    """The request that work stems from, its trace (W3C), and the job that does it; or nothing."""

    request_id: str = ""
    traceparent: str = ""
    job_id: str = ""


_current: ContextVar[Trace] = ContextVar("firedoor_trace")
_NOTHING = Trace()


def current() -> Trace:
    """What this thread works for."""
    return _current.get(_NOTHING)


@contextmanager
def carrying(trace: Trace) -> Iterator[None]:
    """Let what happens in the block be known by ``trace``."""
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)


def well_formed(traceparent: str) -> str:
    """The header's value if it names a trace, else nothing."""
    return traceparent if _TRACEPARENT.fullmatch(traceparent) else ""


def outgoing_headers() -> dict[str, str]:
    """``X-Request-ID`` and, if there is one, ``traceparent``, for a call to another system.

    Of a job that no request led to, its own id; outside of all work, a new one. The trace is
    handed on as it came: there are no spans here that others could hang theirs under.
    """
    trace = current()
    headers = {"X-Request-ID": trace.request_id or trace.job_id or uuid.uuid4().hex}
    return {**headers, "traceparent": trace.traceparent} if trace.traceparent else headers
