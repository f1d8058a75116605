"""kombu's Redis transport, taught that a message is only a hint: none of them may end a worker.

As it comes, an entry of a queue that is no message ends the worker's main process with all its
jobs, and so does a server that is too full to note that a message was taken. Both are met here, in
the class that kombu makes its channels from: the one is dropped, and nothing is noted.
*Hole:* what is dropped here, or held by a worker that is killed, is gone; a job behind it is woken
again by the upkeep pass.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import Empty
from typing import Any

from kombu.transport import redis, virtual
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads

logger = logging.getLogger(__name__)

# What taking an entry apart raises when it is not what Celery writes. What the connection raises
# is none of these, and reaches whoever reconnects.
_NOT_A_MESSAGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class Held(virtual.QoS):
    """Remembers in memory alone what a worker has taken and not begun.

    Noting it in Redis costs two transactions a message, more than half of what a worker's main
    process does, and gives back what a killed worker held after an hour; the upkeep pass wakes
    those jobs after half a minute. A worker that stops gives back what it holds, if it can.
    """

    def restore_unacked(self) -> None:
        """Put what was not begun back into its queue.

        Answers no failures: kombu would write the messages into a file.
        """
        self._flush()  # type: ignore[attr-defined]  # its stubs lack it
        held: dict[str, Any] = self._delivered or {}
        try:
            while held:
                self.channel._restore(held.popitem()[1])
        except Exception as error:  # noqa: BLE001  whatever it is, the jobs are woken again
            words = {"messages": len(held) + 1, "error": type(error).__name__}
            logger.warning("broker.not_given_back", extra=words)
            held.clear()


class Channel(redis.Channel):
    """Drops entries that are no messages, saying so, and goes on."""

    ack_emulation = False
    QoS: type[virtual.QoS]  # type: ignore[assignment]  # more than its stubs allow
    connection_errors: tuple[type[Exception], ...]  # its stubs lack these
    _queue_cycle: Any
    pool: Any
    _flush_brpop_reauth: Callable[[], None]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.QoS = Held  # kombu has just set its own
        self._publishing: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002
        """kombu's own, but made once: it makes one for each message that is published."""
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[misc]
        if self._publishing is None or self._publishing.connection_pool is not self.pool:
            self._publishing = super()._create_client()  # type: ignore[misc]
        return self._publishing

    def _brpop_read(self, **options: Any) -> bool:
        """kombu's own, but for the guard around what was popped."""
        try:
            popped = self._popped(**options)
            if not popped:
                raise Empty
            queue = bytes_to_str(popped[0]).rsplit(self.sep, 1)[0]
            self._queue_cycle.rotate(queue)
            self._take(queue, popped[1])
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()
        return True

    def _popped(self, **options: Any) -> Any:
        connection = self.client.connection
        try:
            return self.client.parse_response(connection, "BRPOP", **options)
        except self.connection_errors:
            connection.disconnect()  # so that the next turn reconnects
            raise

    def _take(self, queue: str, entry: bytes) -> None:
        newest = self._newest()
        try:
            self.connection._deliver(loads(bytes_to_str(entry)), queue)
        except _NOT_A_MESSAGE as error:
            # It may hold anything, also secrets: neither it nor the error's words are shown.
            words = {"queue": queue, "bytes": len(entry), "error": type(error).__name__}
            logger.critical("broker.entry_dropped", extra=words)
            if self._newest() not in (None, newest):
                self.basic_reject(self._newest())

    def _newest(self) -> Any:
        """The tag of the message that was taken last, of those that are not acked yet."""
        taken, acked = self.qos._delivered or (), self.qos._dirty or ()
        return next((tag for tag in reversed(taken) if tag not in acked), None)


def tolerate() -> None:
    """Let every connection of this process use this channel."""
    redis.Transport.Channel = Channel
