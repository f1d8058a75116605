"""What is kept of one request: small, without what a database cannot hold, without our secrets.

*Hole:* where the database is away just then, the row is not written; the job's attempt is.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from django.db import DatabaseError

from jobs.kinds import Run
from webhooks.egress import Reply
from webhooks.models import DeliveryAttempt
from webhooks.outcome import Outcome
from webhooks.parcels import Parcel
from webhooks.states import Trigger
from workspaces.redaction import scrub

logger = logging.getLogger(__name__)

EXCERPT = 4096
VALUE = 300
HEADERS = (
    "content-type",
    "content-length",
    "date",
    "server",
    "location",
    "retry-after",
    "webhook-delivery",
    "x-request-id",
)


@dataclass(frozen=True)
class Brought:
    """The fields of a DeliveryAttempt; to make the object of it costs more than to write it."""

    delivery_id: uuid.UUID
    job_id: uuid.UUID
    number: int
    trigger: Trigger
    url: str
    code: str
    status_code: int | None
    headers: dict[str, str]
    excerpt: str
    milliseconds: int


def of(run: Run, parcel: Parcel, reply: Reply, outcome: Outcome, trigger: Trigger) -> Brought:
    """What a request brought, to be kept."""
    return Brought(
        delivery_id=parcel.delivery_id,
        job_id=run.job_id,
        number=run.attempt,
        trigger=trigger,
        url=parcel.url,
        code=outcome.code[:20],
        status_code=reply.status,
        headers={
            name: plain(reply.headers[name])[:VALUE] for name in HEADERS if name in reply.headers
        },
        excerpt=excerpt_of(reply.excerpt),
        milliseconds=round(reply.seconds * 1000),
    )


def keep(row: Brought) -> None:
    """Write it down. Never raises: a message that was taken stays taken."""
    try:
        DeliveryAttempt.objects.bulk_create([DeliveryAttempt(**vars(row))], ignore_conflicts=True)
    except DatabaseError:
        logger.warning("webhooks.evidence_lost", extra={"delivery_id": str(row.delivery_id)})


def excerpt_of(raw: bytes) -> str:
    """The beginning of a body as text."""
    return plain(raw[: EXCERPT * 4].decode(errors="replace"))[:EXCERPT]


def plain(text: str) -> str:
    """Text that any database takes and any page may show."""
    kept = text.replace("\x00", "").encode(errors="replace").decode()
    return scrub(kept)
