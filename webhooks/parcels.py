"""A delivery as its job takes it up: one statement for all that a request is made of."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field

from jobs.statements import send
from webhooks.models import GATE, WebhookDelivery
from workspaces.sql import as_uuid

_LOAD = """SELECT d.job_id, d.status, e.id, e.workspace_id, e.url, e.headers, e.delays, e.state,
  e.lane, m.id, m.body, s.sealed
FROM webhooks_webhookdelivery d JOIN webhooks_endpoint e ON e.id = d.endpoint_id
  JOIN webhooks_message m ON m.id = d.message_id
  LEFT JOIN webhooks_endpointsecret s ON s.endpoint_id = e.id
    AND (s.expires_at IS NULL OR s.expires_at > @now)
WHERE d.id = @uuid(id) ORDER BY s.created_at DESC, s.id DESC"""


@dataclass(frozen=True)
class Parcel:
    """What is sent, where to, and under which settings of the endpoint.

    ``headers`` are sealed, and so are ``secrets``: those that sign now, the newest first.
    """

    delivery_id: uuid.UUID
    job_id: uuid.UUID | None
    status: str
    endpoint_id: uuid.UUID
    workspace_id: int
    url: str
    headers: str = field(repr=False)
    delays: list[float] | None
    state: str
    lane: str
    message_id: str
    body: bytes = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    @property
    def gate(self) -> str:
        """The gate that the endpoint's deliveries stand behind."""
        return f"{GATE}{self.endpoint_id}"


def loaded(delivery_id: uuid.UUID) -> Parcel:
    """The delivery with this id. Raises WebhookDelivery.DoesNotExist."""
    rows = send(_LOAD, {"id": delivery_id})
    if not rows:
        raise WebhookDelivery.DoesNotExist(f"there is no delivery {delivery_id}")
    job, status, endpoint, workspace, url, headers, delays, state, lane, message, body, _ = rows[0]
    return Parcel(
        delivery_id=delivery_id,
        job_id=None if job is None else as_uuid(job),
        status=status,
        endpoint_id=as_uuid(endpoint),
        workspace_id=workspace,
        url=url,
        headers=headers,
        delays=None if delays is None else json.loads(delays),
        state=state,
        lane=lane,
        message_id=message,
        body=bytes(body),
        secrets=tuple(row[11] for row in rows if row[11] is not None),
    )
