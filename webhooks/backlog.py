"""What is said of an endpoint that more waits for than may: its further messages are skipped.

Once, and again each hour for as long as it goes on; taken back by an hourly pass once half of them
have gone. Nothing is skipped without an alert that says so.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from jobs.events import emit
from webhooks.endings import told
from webhooks.models import Endpoint, WebhookDelivery
from webhooks.states import DeliveryState

WAITING_LIMIT = 10_000
"""Deliveries of an endpoint that may wait; from then on they are skipped, and can be recovered."""
AGAIN = timedelta(hours=1)
FULL, DRAINED = "webhook.endpoint_full", "webhook.endpoint_drained"


def full(endpoints: Iterable[Endpoint], limit: int | None = None) -> set[uuid.UUID]:
    """Those for which so many wait; each is counted no further than that."""
    most = WAITING_LIMIT if limit is None else limit
    waiting = WebhookDelivery.objects.filter(endpoint=OuterRef("pk"), status=DeliveryState.OPEN)
    last = waiting.order_by().values("pk")[most - 1 : most]
    rows = Endpoint.objects.filter(pk__in=[one.pk for one in endpoints])
    return set(rows.filter(Exists(last)).values_list("pk", flat=True))


def say_full(endpoint: Endpoint) -> None:
    """Tell the bus, unless that was done within the hour; in the caller's transaction."""
    silent = Q(full_said_at=None) | Q(full_said_at__lt=Now() - AGAIN)
    if Endpoint.objects.filter(silent, pk=endpoint.pk).update(full_said_at=Now()):
        emit(FULL, endpoint.workspace_id, endpoint.pk, {**told(endpoint), "limit": WAITING_LIMIT})


def look_again(**_signal: Any) -> None:
    """Take it back for those with half as many waiting, or none to come."""
    said = list(Endpoint.objects.exclude(full_said_at=None).order_by("pk"))
    still = full(said, max(1, WAITING_LIMIT // 2))
    for endpoint in said:
        if endpoint.pk in still:
            continue
        with transaction.atomic():
            mine = Endpoint.objects.filter(pk=endpoint.pk).exclude(full_said_at=None)
            if mine.update(full_said_at=None):
                emit(DRAINED, endpoint.workspace_id, endpoint.pk, told(endpoint))
