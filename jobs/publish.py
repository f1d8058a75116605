"""Waking a worker: best effort, never in the way of the caller.

The row is committed before anything is published, so a lost wake costs time and never the job:
the upkeep pass publishes it again. With no broker configured (inline mode) the calling thread
itself runs what is due, unless it serves requests.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from django.conf import settings
from django.db import transaction

from jobs import registry, tasks
from jobs.drain import drain
from jobs.fence import Wake

logger = logging.getLogger(__name__)

SKIP_SECONDS = 5.0


class _Broker:
    """Whether publishing is worth trying, in this process."""

    skip_until = 0.0


class _Drains:
    """Who runs jobs in inline mode: every thread, unless this process serves requests."""

    serving = False
    thread = threading.local()


def after_commit(wakes: Sequence[Wake]) -> None:
    """Wake workers for jobs, once the caller's transaction has committed.

    Jobs of a kind with a share are left to the upkeep pass, which counts.
    """
    if not settings.FIREDOOR_INLINE:
        wakes = [wake for wake in wakes if not _is_shared(wake.kind)]
    if wakes:
        # A plain function: of one that raised, Django logs the __qualname__, which a partial lacks.
        transaction.on_commit(lambda: publish(wakes), robust=True)


def _is_shared(kind: str) -> bool:
    spec = registry.find(kind)
    return spec is not None and spec.is_shared


def publish(wakes: Sequence[Wake]) -> bool:
    """Publish wakes now; False if the broker could not be reached (skipped for 5 s then)."""
    if settings.FIREDOOR_INLINE:
        if not _Drains.serving or getattr(_Drains.thread, "works", False):
            drain()
        return True
    known = [wake for wake in wakes if registry.find(wake.kind) is not None]
    if time.monotonic() < _Broker.skip_until:
        return False
    try:
        tasks.send(known)
    except tasks.BrokerUnreachable as error:
        _Broker.skip_until = time.monotonic() + SKIP_SECONDS
        logger.warning("broker.unreachable", extra={"error": type(error).__name__})
        return False
    return True


def serve_only() -> None:
    """Never drain in the threads of this process: it serves requests."""
    _Drains.serving = True


def work_in_this_thread() -> None:
    """Let this one thread of a serving process run what is due."""
    _Drains.thread.works = True
