"""Endpoints and deliveries as people see them: what is wrong, what waits, what to do, no secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from playwright.sync_api import expect
from pytest_django import Settings

from jobs.models import Upkeep
from jobs.sweep import UPKEEP
from tests.console.conftest import DESKTOP, PHONE, Screen
from tests.integration.webhooks.scene import TOLD, attempts, tell
from tests.support.receiver import Receiver, Says, admitted
from webhooks import endpoints
from webhooks.models import Endpoint, WebhookDelivery
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)

Screens = Callable[..., Screen]


@pytest.fixture
def hook(settings: Settings) -> Iterator[Receiver]:
    with admitted(settings) as one:
        yield one


@pytest.fixture
def failing(shop: Workspace, ana: User, hook: Receiver, monkeypatch: pytest.MonkeyPatch) -> str:
    """An endpoint that refused one message, while three wait; its secret."""
    from jobs import publish

    monkeypatch.setattr(publish._Drains, "serving", True)  # nothing runs by itself
    Upkeep.objects.create(name=UPKEEP, passed_at=Now(), by="a test")
    _one, secret = endpoints.create(
        shop,
        url=hook.url,
        events=[TOLD],
        actor=SYSTEM,
        description="billing",
        headers={"X-Key": "hunter2-header"},
    )
    hook.answers(Says(400, body=b"<b>no such tenant</b>"))
    tell(shop)
    attempts(WebhookDelivery.objects.get())
    for _ in range(3):
        tell(shop)
    return secret


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_what_is_wrong_and_what_to_do_is_said(screen_of: Screens, failing: str, width: int) -> None:
    screen = screen_of(width)
    screen.log_in()
    one = Endpoint.objects.get()
    screen.open("/admin/webhooks/endpoint/")
    screen.shoot(f"endpoints-{width}")
    screen.open(f"/admin/webhooks/endpoint/{one.pk}/change/")
    screen.shoot(f"endpoint-{width}")
    text = screen.page.content()
    for hidden in (failing, "hunter2"):
        assert hidden not in text
    dead = WebhookDelivery.objects.get(status="dead")
    screen.open("/admin/webhooks/webhookdelivery/")
    screen.shoot(f"deliveries-{width}")
    screen.open(f"/admin/webhooks/webhookdelivery/{dead.pk}/change/")
    screen.shoot(f"delivery-{width}")
    expect(screen.page.get_by_text("<b>no such tenant</b>")).to_be_visible()
