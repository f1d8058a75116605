"""What is kept, and for how long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs.models import Upkeep
from jobs.sweep import fault, hourly, sweep
from tests.integration.webhooks.scene import (
    attempts,
    deliveries,
    delivery,
    endpoint,
    failing,
    tell,
)
from tests.support.receiver import Receiver
from webhooks import endpoints
from webhooks.models import DeliveryAttempt, EndpointSecret, Message, WebhookDelivery
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def passes(days: float) -> None:
    """So many days later, at the hour when records are pruned."""
    ago = Now() - timedelta(days=days)
    WebhookDelivery.objects.exclude(finished_at=None).update(finished_at=ago)
    Message.objects.update(created_at=ago)
    Upkeep.objects.filter(name="prune").delete()
    sweep()


def test_what_went_well_is_kept_for_a_month(acme: Workspace, hook: Receiver) -> None:
    endpoint(acme, hook)
    tell(acme)
    attempts(delivery())
    passes(29)
    assert [one.objects.count() for one in KEPT] == [1, 1, 1]
    passes(31)
    assert [one.objects.count() for one in KEPT] == [0, 0, 0]


KEPT: tuple[Any, ...] = (WebhookDelivery, DeliveryAttempt, Message)


def test_what_died_is_kept_for_three(acme: Workspace, hook: Receiver) -> None:
    failing(acme, endpoint(acme, hook), hook)
    passes(89)
    assert [one.objects.count() for one in KEPT] == [1, 1, 1]
    passes(91)
    assert [one.objects.count() for one in KEPT] == [0, 0, 0]


def test_what_has_not_ended_is_kept(acme: Workspace, hook: Receiver) -> None:
    endpoint(acme, hook)
    tell(acme)
    passes(400)
    assert len(deliveries()) == Message.objects.count() == 1


def test_secrets_that_no_longer_sign_go_after_a_month(acme: Workspace, hook: Receiver) -> None:
    one = endpoint(acme, hook)
    endpoints.rotate_secret(one.pk, actor=SYSTEM, grace_seconds=0)
    passes(0)
    assert EndpointSecret.objects.count() == 2
    EndpointSecret.objects.exclude(expires_at=None).update(expires_at=Now() - timedelta(days=31))
    passes(0)
    assert EndpointSecret.objects.get().expires_at is None


def test_an_app_that_cannot_prune_is_told_and_stops_nobody(acme: Workspace) -> None:
    told: list[Any] = []

    def breaks(**_: Any) -> None:
        raise RuntimeError("no room")

    def note(**signal: Any) -> None:
        told.append((signal["work"].rpartition(".")[2], str(signal["error"])))

    hourly.connect(breaks)
    fault.connect(note)
    try:
        Upkeep.objects.filter(name="prune").delete()
        assert sweep().faults == 1
    finally:
        hourly.disconnect(breaks)
        fault.disconnect(note)
    assert told == [("breaks", "no room")]
