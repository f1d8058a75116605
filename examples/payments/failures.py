"""What httpx2's own exceptions mean to the kernel. Answers with a status it reads by itself.

Only what failed before the request could leave (refused, name or certificate unknown, no
connection in time) proves that nothing happened. A connection that broke later proves nothing.
"""

from __future__ import annotations

import httpx2

from jobs.outcomes import Again, EffectSeen, classify_as


def register() -> None:
    """Tell the kernel, for every kind."""
    classify_as(
        httpx2.ConnectError,
        httpx2.ConnectTimeout,
        httpx2.PoolTimeout,
        again=Again.RETRY,
        effect=EffectSeen.NO,
        reason="provider not reached",
    )
    classify_as(httpx2.TimeoutException, again=Again.RETRY, reason="provider too slow")
    classify_as(httpx2.TransportError, again=Again.RETRY, reason="connection broke")
    classify_as(
        httpx2.UnsupportedProtocol,
        httpx2.InvalidURL,
        again=Again.DEAD,
        effect=EffectSeen.NO,
        reason="address of the provider is wrong",
    )
