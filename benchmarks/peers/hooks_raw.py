"""Webhooks by Celery and nothing else: a task signs and sends, and nobody keeps what came of it."""

from __future__ import annotations

import time
from ipaddress import ip_network

from celery import Celery

from benchmarks.peers import receiver
from benchmarks.peers.broker import shared
from webhooks.egress import send, target_of
from webhooks.signing import new_secret, sign

BODY = b'{"type":"job.retried","data":{}}'
_NETWORKS = [ip_network("127.0.0.0/8")]

app = Celery("hooks_raw", set_as_current=False)
app.conf.update(**shared(), task_ignore_result=True)


@app.task(name="deliver")
def deliver(url: str, secret: str, message_id: str) -> None:
    """One request, as the same worker of Firedoor's would make it."""
    target = target_of(url, allow_http=True)
    now = int(time.time())
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(now),
        "webhook-signature": sign([secret], message_id, now, BODY),
    }
    if send(target, headers, BODY, allow=_NETWORKS).status != 200:
        raise RuntimeError("the receiver did not take it")


def fire(count: int) -> None:
    """Publish so many, one by one, while the worker is at work."""
    receiver.forget()
    url, secret = f"http://127.0.0.1:{receiver.start()}/well/raw/0", new_secret()
    for number in range(count):
        deliver.delay(url, secret, f"msg_{number}")


def taken() -> int:
    """How many different messages came."""
    return receiver.count("/well/raw")


def span() -> float:
    """Seconds between the first and the last request."""
    return receiver.span()
