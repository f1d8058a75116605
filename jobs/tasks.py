"""The Celery adapters: one task a kind, with the kind's name, queue and limits.

A message only wakes a worker and carries an id, or a few of short jobs. The task's own retries are
the envelope's: they cover a database out of reach *before* any author's code; the job's retries
live in its row.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # new in 4.3
from celery import Celery, Task, current_app, signals
from celery.exceptions import SoftTimeLimitExceeded
from kombu.exceptions import BatchPublishError  # type: ignore[attr-defined]  # new in 5.7
from kombu.exceptions import OperationalError as BrokerUnreachable
from redis import RedisError

from jobs import registry, runner, shutdown, transactions
from jobs.fence import Wake
from jobs.outcomes import Again, classify_as
from jobs.states import AttemptOutcome
from jobs.together import LATEST, grouped

classify_as(
    SoftTimeLimitExceeded,
    again=Again.RETRY,
    reason="soft_time_limit",
    outcome=AttemptOutcome.TIMED_OUT,
)


# A child whose stop signal has struck meets SystemExit where it is; any other is the code's own.
shutdown.struck = terminate_handler_fired


@signals.worker_init.connect(weak=False)
def _forget_earlier_stops(**_: Any) -> None:
    shutdown.forget()


@signals.worker_ready.connect(weak=False)
def _watch_stops(**_: Any) -> None:
    shutdown.watch_signals()


# A healthy broker answers within milliseconds; a frozen one must not hang the caller.
_PATIENCE = {"socket_timeout": 0.5, "socket_connect_timeout": 0.5, "max_retries": 0}
_local = threading.local()
logger = logging.getLogger(__name__)

# Two lines of Celery's for each message, also for one that claimed nothing. The runner's own line
# says what came of an attempt; whoever wants these back sets the loggers' levels.
_CHATTY = ("celery.worker.strategy", "celery.app.trace")


def register() -> None:
    """Register a task for every kind. Called when the kinds are known."""
    for spec in registry.KINDS.values():
        if spec.name not in current_app.tasks:
            _add(current_app, spec)
    for chatty in map(logging.getLogger, _CHATTY):
        if chatty.level == logging.NOTSET:
            chatty.setLevel(logging.WARNING)


def _add(app: Celery, spec: registry.KindSpec) -> None:
    def wake(job_id: str, *more: str) -> None:
        _run_all(spec.name, [uuid.UUID(each) for each in (job_id, *more)])

    # Celery's own jitter can be 0 s; plain doubling from 1 s is the floor.
    app.task(  # type: ignore[call-overload]  # its stubs know the decorator form only
        wake,
        name=spec.name,
        queue=spec.queue,
        soft_time_limit=spec.soft_time_limit,
        time_limit=spec.time_limit,
        autoretry_for=(runner.ClaimUnavailable,),
        max_retries=5,
        retry_backoff=1,
        retry_backoff_max=30,
        retry_jitter=False,
    )


def _run_all(kind: str, ids: list[uuid.UUID]) -> None:
    """Run the jobs that a message wakes, one after the other; give back what is not to wait."""
    until = time.monotonic() + LATEST
    while ids:
        job_id = ids.pop(0)
        try:
            transactions.roll_back_leftover()
            runner.execute(kind, job_id)
        except runner.ClaimUnavailable:
            raise  # and Celery wakes all of them again
        except BaseException:
            _give_back(kind, ids)
            raise
        if shutdown.asked() or time.monotonic() > until:
            break
    _give_back(kind, ids)


def _give_back(kind: str, ids: list[uuid.UUID]) -> None:
    """Publish what was not begun, each by itself; what cannot be is woken again by upkeep."""
    try:
        for job_id in ids:
            _publish(_producer(), (Wake(job_id, kind),))
    except (RedisError, OSError, BrokerUnreachable) as error:
        logger.warning("broker.unreachable", extra={"error": type(error).__name__})


def send(wakes: Iterable[Wake | tuple[uuid.UUID, str]]) -> None:
    """Publish messages for the jobs, many in one round trip; a pair has its kind's queue.

    Bounded to about a second while the broker is refused or frozen. Raises BrokerUnreachable;
    some of the messages may have been sent then, which costs an empty claim each.
    """
    producer, messages = _producer(), list(grouped(Wake(*wake) for wake in wakes))
    try:
        # A batch of one would cost a fourth more.
        with producer.batch() if len(messages) > 1 else nullcontext():
            for message in messages:
                _publish(producer, message)
    except (BatchPublishError, RedisError, OSError) as error:
        raise BrokerUnreachable(str(error)) from error


def _publish(producer: Any, wakes: tuple[Wake, ...]) -> None:
    """One message as Celery makes it. Its trace is in the job's row, so no signal is sent."""
    task: Task[Any, Any] = current_app.tasks[wakes[0].kind]
    ids = tuple(str(wake.job_id) for wake in wakes)
    message = current_app.amqp.as_task_v2(
        uuid.uuid4().hex,
        task.name,
        ids,
        argsrepr=f"{ids}",  # as Celery would make it, at twice the cost of the rest
        kwargsrepr="{}",
        soft_time_limit=task.soft_time_limit,
        time_limit=task.time_limit,
        ignore_result=True,
    )
    producer.publish(
        message.body,
        exchange="",
        routing_key=wakes[0].queue or registry.named(task.name).queue,
        serializer="json",
        headers=message.headers,
        **message.properties,
    )


def _producer() -> Any:
    """This thread's own connection to the broker: kombu's are not to be shared."""
    producer = getattr(_local, "producer", None)
    if producer is None:
        options = {**current_app.conf.broker_transport_options, **_PATIENCE}
        connection = current_app.connection_for_write(transport_options=options)
        producer = _local.producer = current_app.amqp.Producer(connection, auto_declare=False)
    return producer


__all__ = ["BrokerUnreachable", "register", "send"]
