"""Celery and nothing else: no result, no record, one message a task.

With ``BENCH_ACKS=0`` in its environment it notes nowhere which messages it took, as Firedoor does:
those that a worker held are lost when it is killed, and nobody knows of them.
"""

import os

from celery import Celery

from benchmarks.peers.broker import shared
from benchmarks.stamps import mark

app = Celery("raw", set_as_current=False)
app.conf.update(**shared(), task_ignore_result=True)
if os.environ.get("BENCH_ACKS") == "0":
    app.conf.broker_transport_options = {
        **app.conf.broker_transport_options,
        "ack_emulation": False,
    }
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
