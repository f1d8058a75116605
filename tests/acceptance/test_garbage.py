"""What does not belong into the queues ends no worker, and no job is lost with it."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from celery import Celery

from tests.acceptance.stack import Stack, is_alive
from tests.acceptance.watching import all_ended, message, taken
from tests.drills.kinds import noop
from workspaces.models import Workspace

HUGE = 4 << 20


def changed(**parts: Any) -> bytes:
    """A message as our own code sends it, but for some parts of it; None leaves a part out."""
    whole: dict[str, Any] = json.loads(message("drills.noop", [[str(uuid.uuid4())], {}, {}]))
    for name, part in parts.items():
        holder = next((h for h in (whole, whole["properties"], whole["headers"]) if name in h), {})
        holder[name] = part
        if part is None:
            del holder[name]
    return json.dumps(whole).encode()


NO_MESSAGES = {
    "text": b"garbage",
    "nothing": b"",
    "bytes": b"\xff\xfe\x00\x80",
    "half": b'{"body": "W10=", "proper',
    "number": b"17",
    "null": b"null",
    "list": b"[]",
    "object": b"{}",
    "crafted": b'{"__type__": "uuid", "__value__": 1}',
    "deep": b"[" * 100_000,
    "no properties": changed(properties=None),
    "no tag": changed(delivery_tag=None),
    "no address": changed(delivery_info=None),
    "unknown encoding": changed(body_encoding="rot13"),
    "body is no text": changed(body=17),
}
UNREADABLE = {
    "headers are a list": changed(headers=[1]),
    "no headers": changed(headers=None),
    "task is a list": changed(task=["drills.noop"]),
    "no id": changed(id=None),
    "odd limit": changed(lang="py", timelimit="soon"),
    "odd moment": changed(lang="py", eta="tomorrow"),
    "pickle": changed(**{"content-type": "application/x-python-serialize"}),
    "unknown type": changed(**{"content-type": "text/alien"}),
    "unknown charset": changed(**{"content-encoding": "klingon"}),
    "body is no base64": changed(body="#"),
    "body is an object": json.loads(json.dumps(message("drills.noop", '{"a": 1}'))).encode(),
    "body is a number": message("drills.noop", "5").encode(),
    "body is null": message("drills.noop", "null").encode(),
    "body is short": message("drills.noop", "[1]").encode(),
    "arguments are a number": message("drills.noop", "[5, 5, 5]").encode(),
}
LARGE = {
    "of an unknown task": message("drills.unheard_of", ["x" * HUGE, {}, {}]).encode(),
    "of a task of ours": message("drills.noop", [["x" * HUGE], {}, {}]).encode(),
    "and no message": b"x" * HUGE,
}


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, id=f"{sort}: {name}")
        for sort, entries in (
            ("no message", NO_MESSAGES),
            ("unreadable", UNREADABLE),
            ("huge", LARGE),
        )
        for name, entry in entries.items()
    ],
)
def test_an_entry_that_is_no_wake_of_ours_leaves_the_worker_alive(
    stack: Stack, workspace: Workspace, entry: bytes
) -> None:
    worker = stack.worker.pid
    with stack.wire() as wire:
        wire.lpush("default", *[entry] * 5)  # more than there are children
    _goes_on(stack, workspace, worker)


def test_messages_of_another_celery_leave_the_worker_alive(
    stack: Stack, workspace: Workspace
) -> None:
    worker = stack.worker.pid
    for protocol in (1, 2):
        other = Celery("other", broker=stack.broker.url, set_as_current=False)
        other.conf.task_protocol = protocol
        for _ in range(5):
            other.send_task("other.tasks.add", args=(1, 2), queue="default", priority=3)
            other.send_task("drills.noop", args=("no", "id"), queue="default")
        other.close()
    _goes_on(stack, workspace, worker)


def _goes_on(stack: Stack, workspace: Workspace, worker: int) -> None:
    """The same worker has taken it all, keeps none of it, and runs jobs."""
    jobs = [noop.s().enqueue(workspace=workspace, key=str(number)) for number in range(5)]
    assert {(job.state, job.attempt) for job in all_ended(jobs)} == {("succeeded", 1)}
    assert (stack.worker.pid, is_alive(stack.worker)) == (worker, True)
    taken(stack)
