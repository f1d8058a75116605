"""The closed sets of words about endpoints and deliveries. Pure."""

from __future__ import annotations

from enum import StrEnum


class EndpointState(StrEnum):
    """`failing`: deliveries wait and one at a time is tried; `disabled`: nothing is sent."""

    ACTIVE = "active"
    FAILING = "failing"
    DISABLED = "disabled"


class Reason(StrEnum):
    """Why an endpoint is disabled."""

    MANUAL = "manual"
    GONE = "gone"
    RECEIVER = "receiver"
    SUSTAINED = "sustained_failure"
    BLOCKED = "blocked_address"
    CLOSED = "workspace_closed"


class DeliveryState(StrEnum):
    """`open` while its job lives, which then says more: a delivery has no attempts of its own."""

    OPEN = "open"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Trigger(StrEnum):
    """What a request was made for. Only an automatic one says anything about the endpoint."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"


FAST = "webhooks"
SLOW = "webhooks_slow"
"""The two queues: endpoints that take long to answer hold no worker of the others."""
