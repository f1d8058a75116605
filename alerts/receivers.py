"""What alerts hears of jobs. Each event is an occasion to look, so any order and repetition do."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from alerts import endpoints
from alerts.cause import death_in
from alerts.open import open_for
from alerts.operations import look_at
from alerts.resolve import settle
from jobs.events import receives

if TYPE_CHECKING:
    from jobs.models import Event


@receives("job.dead", "job.uncertain")
def on_death(event: Event) -> None:
    """A job became a dead letter."""
    open_for(UUID(event.subject), death_in(event.data))


def _never(workspace_id: int) -> bool:
    """Plain successes are not wanted: a job that is no retry has no dead letter behind it."""
    return False


@receives("job.succeeded", "job.resolved", "job.cancelled", wants=_never)
def on_ending(event: Event) -> None:
    """A chain may have ended."""
    settle(UUID(event.subject))


@receives(
    "webhook.endpoint_failing",
    "webhook.endpoint_disabled",
    "webhook.endpoint_active",
    "webhook.endpoint_full",
    "webhook.endpoint_drained",
)
def on_endpoint(event: Event) -> None:
    """An endpoint of webhooks fails, was given up or skips, or is well again."""
    endpoints.look_at(event)


@receives("operation.paused", "operation.finished", "operation.stopped", "operation.resolved")
def on_operation(event: Event) -> None:
    """An operation paused by itself, or ended; or somebody looked after its failures."""
    look_at(event)
