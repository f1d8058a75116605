"""Is the broker fit for queues? It may lose messages, but it must not drop them in silence."""

from __future__ import annotations

from django.conf import settings

from config.doctor.answer import Answer, fail, ok, warn
from config.doctor.check import check
from config.doctor.sight import Sight

FULL_SOON = 0.6
FULL = 0.9


@check("broker.reachable", command='redis-cli -u "$REDIS_URL" ping')
def reachable(sight: Sight) -> Answer | None:
    """Does the broker answer?

    While it does not, nothing is lost: jobs wait in their rows, and upkeep wakes workers once it
    is back. But nothing new starts. Not asked in inline mode, which has no broker.
    """
    if settings.FIREDOOR_INLINE:
        return None
    address = sight.connection.as_uri()
    try:
        sight.broker.ping()
    except Exception as error:  # noqa: BLE001  kombu and redis-py raise many kinds of errors
        return fail(f"The broker at {address} does not answer ({type(error).__name__}).")
    return ok(f"The broker at {address} answers.")


@check(
    "broker.eviction",
    needs="broker.reachable",
    command='redis-cli -u "$REDIS_URL" config set maxmemory-policy noeviction',
)
def eviction(sight: Sight) -> Answer:
    """Does the broker keep what it was given?

    Any policy but noeviction lets it drop whole queues without an error once memory is short.
    Set it in the server's own configuration as well, or it is gone with the next restart.
    """
    policy = sight.info.get("maxmemory_policy")
    if policy == "noeviction":
        return ok("The eviction policy is noeviction.")
    if policy is None:
        return warn("The broker does not say its eviction policy; it must be noeviction.")
    judge = fail if policy.startswith("allkeys") else warn
    return judge(f"The eviction policy is {policy}: when memory is short, queues vanish.")


@check(
    "broker.persistence",
    needs="broker.reachable",
    command='redis-cli -u "$REDIS_URL" config set appendonly yes',
)
def persistence(sight: Sight) -> Answer:
    """Does the broker keep its messages over a restart?

    Without an append-only file a restart forgets every message. No job is lost by it: upkeep
    publishes again, after 30 seconds to 30 minutes. Jobs only start that much later.
    """
    if not sight.info.get("aof_enabled"):
        return warn("The broker keeps no append-only file: a restart delays all waiting jobs.")
    if sight.info.get("aof_last_write_status", "ok") != "ok":
        return fail("The broker cannot write its append-only file; see its log and disk.")
    return ok("The broker keeps an append-only file.")


@check("broker.memory", needs="broker.reachable", command='redis-cli -u "$REDIS_URL" info memory')
def memory(sight: Sight) -> Answer:
    """Is there room for more messages?

    A full broker refuses messages, and a worker that meets it ends. Firedoor's messages are small
    (about a kilobyte) and few; if they are many, workers are too slow or gone. If something else
    lives in this server, give the queues one of their own.
    """
    used, limit = int(sight.info["used_memory"]), int(sight.info.get("maxmemory") or 0)
    megabytes = f"{used / 1e6:.1f} MB"
    if not limit:
        return ok(f"The broker uses {megabytes}; no limit is set.")
    share = used / limit
    sentence = f"The broker uses {megabytes}, {share:.0%} of what it may."
    if share < FULL_SOON:
        return ok(sentence)
    return (fail if share >= FULL else warn)(sentence)
