"""Who runs the demo's jobs, and where its log lines go."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.db import connection

from jobs import shutdown
from jobs.publish import serve_only, work_in_this_thread
from jobs.sweep import sweep

logger = logging.getLogger(__name__)

_PASS_SECONDS = 0.2
_STOP_SECONDS = 60.0


@contextmanager
def somebody_works() -> Iterator[None]:
    """Run jobs on a thread of this process while the block lasts, as ``manage.py serve`` does.

    With a broker the workers that are there do it, and this does nothing.
    """
    if not settings.FIREDOOR_INLINE:
        yield
        return
    serve_only()  # the thread that tells the story only looks
    stop = threading.Event()
    thread = threading.Thread(target=_work, args=(stop,), name="firedoor-demo", daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        shutdown.ask()  # what runs stops at its next step; this process ends
        raise
    finally:
        stop.set()
        thread.join(_STOP_SECONDS)


def _work(stop: threading.Event) -> None:
    work_in_this_thread()
    while not stop.wait(_PASS_SECONDS):
        try:
            sweep()
        except (Exception, SystemExit):  # no handler must end the only thread that works
            logger.exception("demo.pass_failed")
            connection.close()
    connection.close()


@contextmanager
def logs_into(path: Path) -> Iterator[None]:
    """Write this process' log lines to a file while the block lasts: the story is told instead."""
    handlers = [h for h in logging.getLogger().handlers if isinstance(h, logging.StreamHandler)]
    with path.open("a") as file:
        before = [(handler, handler.setStream(file)) for handler in handlers]
        try:
            yield
        finally:
            for handler, stream in before:
                if stream is not None:
                    handler.setStream(stream)
