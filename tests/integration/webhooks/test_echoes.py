"""A receiver that sends back what it was sent: what is kept of its answer tells no secret."""

from __future__ import annotations

import pytest

from tests.integration.webhooks.scene import attempt, delivery, endpoint, tell
from tests.support.receiver import Receiver, Says
from webhooks.models import DeliveryAttempt
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]


@pytest.mark.parametrize("status", [200, 400])
def test_what_a_receiver_sends_back_of_the_sealed_headers_is_not_kept(
    acme: Workspace, hook: Receiver, status: int
) -> None:
    endpoint(acme, hook, headers={"X-Key": "canary 7", "Authorization": "Basic Y2FuYXJ5LTg="})
    echo = b'{"x-key": "canary 7", "authorization": "Basic Y2FuYXJ5LTg=", "host": "here"}'
    hook.answers(Says(status, {"x-request-id": "canary 7"}, echo))
    tell(acme)
    attempt(mine := delivery())

    (got,) = hook.got
    assert (got.headers["x-key"], got.headers["authorization"]) == (
        "canary 7",
        "Basic Y2FuYXJ5LTg=",
    )
    kept = DeliveryAttempt.objects.get(delivery=mine)
    assert "canary" not in str((kept.excerpt, kept.headers))
    assert "Y2Fu" not in kept.excerpt
    assert '"host": "here"' in kept.excerpt
