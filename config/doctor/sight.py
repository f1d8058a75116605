"""What one examination sees of broker and workers, asked once and in bounded time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from celery import current_app
from kombu import Connection

BROKER_SECONDS = 2.0
WORKER_SECONDS = 1.5
_PATIENCE = {"socket_timeout": BROKER_SECONDS, "socket_connect_timeout": BROKER_SECONDS}


@dataclass(frozen=True)
class Worker:
    """A worker that answered. ``visibility`` is its visibility timeout in seconds."""

    name: str
    queues: frozenset[str]
    kinds: frozenset[str]
    visibility: int | None


class Sight:
    """One examination's view. Raises what broker and client library raise."""

    @cached_property
    def connection(self) -> Connection:
        """A connection as workers open it, but one that does not wait long."""
        options = {**current_app.conf.broker_transport_options, **_PATIENCE}
        return current_app.connection_for_read(transport_options=options)

    @cached_property
    def broker(self) -> Any:
        """A redis client of the database that the queues are in."""
        self.connection.ensure_connection(max_retries=1, interval_start=0)
        channel: Any = self.connection.default_channel
        return channel.client

    @cached_property
    def info(self) -> dict[str, Any]:
        return dict(self.broker.info())

    @cached_property
    def workers(self) -> tuple[Worker, ...]:
        """The workers that answer within the time; a busy one does, a frozen one does not."""
        asked = current_app.control.inspect(timeout=WORKER_SECONDS, connection=self.connection)
        queues = asked.active_queues()
        if not queues:
            return ()
        kinds = asked.registered() or {}
        stats: Any = asked.stats() or {}
        return tuple(
            Worker(
                name,
                frozenset(queue["name"] for queue in served or ()),
                frozenset(kinds.get(name) or ()),
                _visibility(stats.get(name) or {}),
            )
            for name, served in sorted(queues.items())
        )

    def close(self) -> None:
        if "connection" in self.__dict__:
            self.connection.release()


def _visibility(stats: dict[str, Any]) -> int | None:
    broker = stats.get("broker") or {}
    return (broker.get("transport_options") or {}).get("visibility_timeout")
