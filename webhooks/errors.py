"""What is refused about webhooks, each with a stable code."""

from __future__ import annotations

from typing import Any, Self

from workspaces.errors import FiredoorError


class WebhooksError(FiredoorError):
    """Base of every refusal here. Nothing was changed. ``members`` says it to programs."""

    members: dict[str, Any] = {}

    def telling(self, **members: Any) -> Self:
        """Itself, with these members."""
        self.members = members
        return self


class EndpointNotFound(WebhooksError):
    """There is no such endpoint that the actor may see."""

    code = "webhook_endpoint_not_found"
    status = 404


class DeliveryNotFound(WebhooksError):
    """There is no such delivery that the actor may see."""

    code = "webhook_delivery_not_found"
    status = 404


class UrlInvalid(WebhooksError):
    """The URL is none that webhooks may go to; `reason` says why."""

    code = "webhook_url_refused"
    status = 422


class EndpointInvalid(WebhooksError):
    """An event that does not exist, a header that is ours, or delays out of bounds."""

    code = "webhook_endpoint_invalid"
    status = 422


class EndpointDisabled(WebhooksError):
    """Nothing is sent to a disabled endpoint."""

    code = "webhook_endpoint_disabled"
    status = 409


class EnabledTooSoon(WebhooksError):
    """An endpoint stays disabled for a minute at least."""

    code = "webhook_enabled_too_soon"
    status = 409
    retry = "same_key"
    retry_after = 60


class SecretsFull(WebhooksError):
    """So many secrets sign already; let one expire first."""

    code = "webhook_secrets_full"
    status = 409


class DeliveryInFlight(WebhooksError):
    """The message is on its way: its job has not ended."""

    code = "webhook_delivery_in_flight"
    status = 409


class RecoverRunning(WebhooksError):
    """A recovery of the endpoint has not ended."""

    code = "webhook_recover_running"
    status = 409


class WindowInvalid(WebhooksError):
    """The time to recover begins after its end, or lies too far back."""

    code = "webhook_window_invalid"
    status = 422
