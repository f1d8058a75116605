"""What closing a workspace does to its endpoints: nothing more is sent."""

from __future__ import annotations

from webhooks import endings
from webhooks.models import Endpoint
from webhooks.states import EndpointState, Reason
from workspaces.actors import Actor
from workspaces.models import Workspace


def stop_endpoints(workspace: Workspace, _actor: Actor, _reason: str) -> None:
    """Disable them all. What waits is cancelled by the kernel's own part."""
    mine = (
        Endpoint.objects.select_for_update(no_key=True).filter(workspace=workspace).order_by("pk")
    )
    for endpoint in mine.exclude(state=EndpointState.DISABLED):
        endings.disable(endpoint, Reason.CLOSED)
