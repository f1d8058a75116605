"""What a workspace's lists of webhooks hold: its own, and nothing of another's."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.integration.api.conftest import Caller
from tests.integration.webhooks.scene import endpoint, tell
from tests.support.receiver import Receiver
from webhooks.models import WebhookDelivery
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]
Callers = Callable[..., Caller]


@pytest.mark.parametrize("address", ["webhook-endpoints/", "webhook-deliveries/"])
def test_a_list_is_of_this_workspace_alone(
    acme: Workspace, hook: Receiver, caller: Callers, address: str
) -> None:
    rival = Workspace.objects.create(slug="rival", name="Rival")
    for workspace in (rival, acme):
        endpoint(workspace, hook, events=["job.cancelled"])
        tell(workspace, "job.cancelled")
    mine = WebhookDelivery.objects.get(workspace=acme)
    assert WebhookDelivery.objects.count() == 2

    listed = json.loads(caller().get(address).content)["results"]

    expected = mine.endpoint_id if address == "webhook-endpoints/" else mine.pk
    assert [line["id"] for line in listed] == [str(expected)]
