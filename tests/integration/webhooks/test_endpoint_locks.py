"""An endpoint that somebody is at work on keeps nobody from telling it of an event."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from tests.integration.kernel.sessions import at_once
from tests.integration.webhooks.scene import TOLD, deliveries, delivery, endpoint, job_of, tell
from tests.support.receiver import Receiver
from webhooks import endings, endpoints
from webhooks.closing import stop_endpoints
from webhooks.models import Endpoint
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)


def rotate(one: Endpoint) -> None:
    endpoints.rotate_secret(one.pk, actor=SYSTEM)


def disable(one: Endpoint) -> None:
    endpoints.disable(one.pk, actor=SYSTEM)


def close(one: Endpoint) -> None:
    stop_endpoints(one.workspace, SYSTEM, "")


def seal(_one: Endpoint) -> None:
    call_command("rotate_sealing")


def fail(_one: Endpoint) -> None:
    job = job_of(delivery())
    job.state, job.cause = "dead", "exhausted"
    endings.follow(job, "dead", None)


def heal(_one: Endpoint) -> None:
    Endpoint.objects.update(state="failing")
    job = job_of(delivery())
    job.state, job.result = "succeeded", {"code": "ok"}
    endings.follow(job, "succeeded", None)


@pytest.mark.parametrize("work", [rotate, disable, close, seal, fail, heal])
def test_telling_does_not_wait_for_who_is_at_work_on_the_endpoint(
    acme: Workspace, hook: Receiver, work: Callable[[Endpoint], None]
) -> None:
    """A delivery's foreign key took a lock at the commit that was not to be had: whoever told of
    an event fell to a deadlock where two endpoints were at work.
    """
    one = endpoint(acme, hook, [TOLD], headers={"authorization": "Bearer it"})
    tell(acme)

    def told() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '2s'")
        tell(acme)

    with transaction.atomic():
        work(one)
        assert at_once(told) == [None]
    assert len(deliveries()) == 2
