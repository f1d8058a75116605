"""How long webhooks' records are kept: what went well 30 days, what died 90, then their messages.

*Hole:* a delivery that is gone cannot be sent again, and its event no longer tells of it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from webhooks.models import EndpointSecret, Message, WebhookDelivery
from webhooks.states import DeliveryState

KEPT = timedelta(days=30)
KEPT_DEAD = timedelta(days=90)
AT_ONCE = 1000
BATCHES = 50


def prune(**_signal: Any) -> int:
    """Delete what has been kept long enough, a thousand a transaction; how many rows went."""
    return sum(_pruned(rows) for rows in (_deliveries(), _messages(), _secrets()))


def _deliveries() -> QuerySet[Any]:
    """Those that have ended; an open one is never pruned."""
    well = Q(finished_at__lt=Now() - KEPT) & ~Q(status=DeliveryState.DEAD)
    dead = Q(finished_at__lt=Now() - KEPT_DEAD, status=DeliveryState.DEAD)
    return WebhookDelivery.objects.filter(well | dead).exclude(status=DeliveryState.OPEN)


def _messages() -> QuerySet[Any]:
    wanted = WebhookDelivery.objects.filter(message=OuterRef("pk"))
    return Message.objects.filter(~Exists(wanted), created_at__lt=Now() - KEPT)


def _secrets() -> QuerySet[Any]:
    return EndpointSecret.objects.filter(expires_at__lt=Now() - KEPT)


def _pruned(rows: QuerySet[Any]) -> int:
    gone = 0
    for _ in range(BATCHES):
        with transaction.atomic():
            ids = list(rows.order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
            rows.model._default_manager.filter(pk__in=ids).delete()
        gone += len(ids)
        if len(ids) < AT_ONCE:
            break
    return gone
