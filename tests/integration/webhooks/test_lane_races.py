"""An endpoint's lane changes while something is on its way to the old one."""

from __future__ import annotations

import pytest
from django.db import transaction

from jobs.recovery.retry import retry
from tests.integration.kernel.sessions import at_once
from tests.integration.webhooks.scene import (
    attempt,
    attempts,
    deliveries,
    delivery,
    endpoint,
    job_of,
    known,
    tell,
)
from tests.support.receiver import Receiver, Says
from webhooks.models import Endpoint
from webhooks.states import SLOW
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_is_told_while_an_endpoint_changes_lanes_follows_it(
    acme: Workspace, hook: Receiver
) -> None:
    """Who moves the endpoint cannot see what is not committed; it waited behind the slow ones."""
    endpoint(acme, hook)
    tell(acme)
    (first,) = deliveries()
    assert job_of(first).queue == "webhooks_slow"
    with transaction.atomic():
        tell(acme)
        at_once(lambda: attempt(first))
        assert {job_of(one).queue for one in deliveries()} == {"webhooks_slow", "webhooks"}
    assert Endpoint.objects.get().lane == "webhooks"
    assert {job_of(one).queue for one in deliveries()} == {"webhooks"}


@pytest.mark.sqlite
def test_a_retried_delivery_waits_where_its_endpoint_belongs_now(
    acme: Workspace, hook: Receiver
) -> None:
    one = endpoint(acme, hook)
    hook.answers(Says(400, seconds=2.1))
    tell(acme)
    letter = attempts(delivery())
    assert job_of(letter).queue == SLOW
    known(one)
    successor = retry(job_of(letter).pk, mode="resume", actor=SYSTEM, reason="it is quick again")
    assert job_of(letter).pk == successor.pk
    assert job_of(letter).queue == "webhooks"
