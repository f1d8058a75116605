"""What a request says of itself, whose clock counts, and a receiver that wants no more."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from tests.integration.webhooks.scene import (
    attempt,
    attempts,
    codes,
    delivery,
    endpoint,
    probe,
    tell,
    waits,
)
from tests.support.receiver import Receiver, Says
from webhooks import again
from webhooks.models import Message, WebhookDelivery
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def test_its_headers_are_the_contracts(acme: Workspace, hook: Receiver) -> None:
    """B2.1; W-03: the moment is the request's, not the event's."""
    endpoint(acme, hook)
    tell(acme)
    mine = delivery()
    Message.objects.update(created_at=Now() - timedelta(hours=1))
    before = int(time.time())
    attempt(mine)
    (got,) = hook.got
    said = {name.lower(): value for name, value in got.headers.items()}
    assert before <= int(said.pop("webhook-timestamp")) <= int(time.time())
    assert said.pop("webhook-signature").startswith("v1,")
    assert said.pop("user-agent").startswith("firedoor-webhooks/")
    assert said == {
        "host": f"127.0.0.1:{hook.port}",
        "content-type": "application/json",
        "accept": "*/*",
        "accept-encoding": "identity",
        "webhook-id": mine.message_id,
        "webhook-attempt": "1",
        "content-length": str(len(got.body)),
        "connection": "close",
    }


def test_a_worker_whose_clock_went_back_waits_as_long(
    acme: Workspace, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-33: the database's clock decides when the next request is due."""
    endpoint(acme, hook)
    hook.answers(500)
    tell(acme)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 7200)
    monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) - timedelta(hours=2))
    mine = attempt(delivery())
    monkeypatch.undo()
    assert 30 - 3 <= waits(mine) <= 45


def test_the_receiver_may_say_that_it_wants_no_more(acme: Workspace, hook: Receiver) -> None:
    one = endpoint(acme, hook)
    hook.answers(Says(500, {"webhook-delivery": "abort-message"}), 200)
    tell(acme)
    assert (attempts(delivery()).status, codes(delivery())) == ("dead", ["aborted"])
    one.refresh_from_db()
    assert one.state == "failing"
    hook.answers(Says(500, {"webhook-delivery": "disable"}))
    attempts(again.send_test(one.pk, actor=SYSTEM))
    one.refresh_from_db()
    assert one.state == "failing", "what was asked for by hand says nothing about the endpoint"
    tell(acme)
    probe()
    attempts(WebhookDelivery.objects.filter(status="open").get())
    one.refresh_from_db()
    assert (one.state, one.reason, len(hook.got)) == ("disabled", "receiver", 3)
