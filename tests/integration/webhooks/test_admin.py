"""The console's pages of endpoints and deliveries."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.integration.webhooks.scene import (
    TOLD,
    attempts,
    delivery,
    endpoint,
    failing,
    tell,
)
from tests.support.receiver import Receiver, Says
from webhooks import endpoints
from webhooks.models import Endpoint, EndpointSecret
from workspaces.actors import SYSTEM
from workspaces.models import Membership, Workspace
from workspaces.permissions import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


def reader(client: Client, workspace: Workspace, role: Role) -> None:
    user = User.objects.create_user(role, is_staff=True)
    Membership.objects.create(user=user, workspace=workspace, role=role)
    client.force_login(user)


def page(client: Client, model: str, pk: object = None) -> tuple[int, str]:
    where = "change" if pk else "changelist"
    answer = client.get(reverse(f"admin:webhooks_{model}_{where}", args=[pk] if pk else []))
    return answer.status_code, answer.content.decode()


def test_an_endpoint_is_told_without_its_secrets(
    acme: Workspace, hook: Receiver, client: Client
) -> None:
    one, secret = endpoints.create(
        acme, url=hook.url, events=[TOLD], actor=SYSTEM, headers={"X-Key": "hunter2-header"}
    )
    reader(client, acme, Role.VIEWER)
    status, text = page(client, "endpoint", one.pk)
    assert status == 200
    assert f"…{secret[-4:]}" in text
    sealed = EndpointSecret.objects.get().sealed
    for hidden in (secret, sealed, one.headers, "hunter2"):
        assert hidden not in text
    assert "0 wait for their turn" in text
    assert page(client, "endpoint")[0] == 200
    assert page(client, "webhookdelivery")[0] == 403


def test_a_delivery_is_told_with_its_requests_and_escaped(
    acme: Workspace, hook: Receiver, client: Client
) -> None:
    endpoint(acme, hook)
    hook.answers(Says(400, body=b"<script>alert(1)</script>"))
    tell(acme)
    mine = attempts(delivery())
    reader(client, acme, Role.OPERATOR)
    status, text = page(client, "webhookdelivery", mine.pk)
    assert status == 200
    for shown in ("http_400", "dead", TOLD, mine.message_id, "&lt;script&gt;alert(1)"):
        assert shown in text
    assert "<script>alert" not in text
    assert mine.message_id in page(client, "webhookdelivery")[1]


def test_each_state_says_what_was_not_done_and_what_to_do(
    acme: Workspace, hook: Receiver, client: Client
) -> None:
    one = failing(acme, endpoint(acme, hook), hook)
    dead = delivery()
    tell(acme)
    reader(client, acme, Role.OPERATOR)
    own = f"/api/v1/workspaces/acme/webhook-endpoints/{one.pk}/"
    again = f"POST /api/v1/workspaces/acme/webhook-deliveries/{dead.pk}/redeliver/"
    said = page(client, "endpoint", one.pk)[1]
    assert f"POST {own}test/" in said
    assert "1 wait and none of them is lost" in said
    assert again in page(client, "webhookdelivery", dead.pk)[1]
    Endpoint.objects.update(full_said_at=Now(), state="active")
    assert "new events are kept as skipped" in page(client, "endpoint", one.pk)[1]
    endpoints.disable(one.pk, actor=SYSTEM)
    tell(acme)
    assert f"POST {own}enable/" in page(client, "endpoint", one.pk)[1]
    skipped = delivery(status="skipped")
    assert "It was never sent" in page(client, "webhookdelivery", skipped.pk)[1]
    waiting = delivery(status="open")
    assert "waits for its turn" in page(client, "webhookdelivery", waiting.pk)[1]


def test_what_is_of_another_workspace_does_not_exist(
    acme: Workspace, hook: Receiver, client: Client
) -> None:
    one = endpoint(acme, hook)
    tell(acme)
    rival = Workspace.objects.create(slug="rival", name="Rival")
    reader(client, rival, Role.ADMIN)
    assert page(client, "endpoint", one.pk)[0] == 404
    assert page(client, "webhookdelivery", delivery().pk)[0] == 404
    assert "acme" not in page(client, "endpoint")[1].lower()


def test_a_list_of_open_ones_asks_as_often_as_a_list_of_one(
    acme: Workspace, hook: Receiver, client: Client
) -> None:
    endpoint(acme, hook)
    tell(acme)
    reader(client, acme, Role.OPERATOR)
    assert page(client, "webhookdelivery")[0] == 200
    with CaptureQueriesContext(connection) as one:
        text = page(client, "webhookdelivery")[1]
    assert text.count("pending") >= 1
    for _ in range(10):
        tell(acme)
    with CaptureQueriesContext(connection) as many:
        text = page(client, "webhookdelivery")[1]
    assert text.count("pending") >= 11
    assert len(many) == len(one)
