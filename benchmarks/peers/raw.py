"""Celery and nothing else: no result, no record, one message a task."""

from celery import Celery

from benchmarks.peers.broker import shared
from benchmarks.stamps import mark

app = Celery("raw", set_as_current=False)
app.conf.update(**shared(), task_ignore_result=True)
noop = app.task(name="noop")(mark)


def clear() -> None:
    """Forget whatever waits."""
    app.control.purge()


def enqueue(_task: str, count: int) -> None:
    """Publish one by one, as callers do."""
    for _ in range(count):
        noop.delay()


def finished() -> int | None:
    """Nothing is recorded."""
    return None
