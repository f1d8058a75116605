"""What changes while a message is on its way: its workspace, its secrets, its address, its fate."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
import trustme
from django.db import connection
from django.db.models.functions import Now
from pytest_django import Settings
from standardwebhooks.webhooks import Webhook

from jobs.errors import JobsError
from jobs.models import Gate, Job
from tests.integration import test_webhook_egress
from tests.integration.bulk_scene import turns
from tests.integration.kernel.sessions import at_once
from tests.integration.test_webhook_egress import OK, answering, receiving, says, secured, trusting
from tests.integration.webhooks.scene import (
    TOLD,
    alert,
    attempt,
    attempts,
    codes,
    delivery,
    endpoint,
    failing,
    job_of,
    probe,
    tell,
)
from tests.integration.webhooks.test_again import recovered, redelivered
from tests.support.receiver import Got, Receiver, Says
from webhooks import endpoints
from webhooks.egress import sending
from webhooks.errors import WebhooksError
from webhooks.models import DeliveryAttempt, Endpoint
from workspaces import closing
from workspaces.actors import SYSTEM
from workspaces.errors import FiredoorError
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)
both = pytest.mark.sqlite
NAME = "hooks.example.com"


def while_sending(hook: Receiver, deed: Callable[[], object]) -> None:
    """The receiver does it once, before it answers."""
    taken, left = hook.take, [deed]

    def take(got: Got) -> Says:
        said = taken(got)
        if left:
            left.pop()()
            connection.close()  # this thread's own
        return said

    hook.take = take  # type: ignore[method-assign]


# --- the workspace


@pytest.mark.parametrize(("answer", "status"), [(200, "succeeded"), (500, "cancelled")])
def test_closed_in_mid_delivery_it_is_told_what_came_and_never_asked_again(
    acme: Workspace, hook: Receiver, answer: int, status: str
) -> None:
    one = endpoint(acme, hook)
    tell(acme)
    tell(acme)
    hook.answers(answer)
    first, second = sorted(acme_deliveries(one), key=lambda each: each.pk)
    while_sending(hook, lambda: closing.close(acme.pk, actor=SYSTEM, reason="it has ended"))
    assert attempts(first).status == status
    second.refresh_from_db()
    one.refresh_from_db()
    assert second.status == "cancelled"
    assert (one.state, one.reason) == ("disabled", "workspace_closed")
    assert len(hook.got) == 1
    assert not Job.objects.filter(workspace=acme, state="queued", kind="webhooks.deliver").exists()


def acme_deliveries(one: Endpoint) -> list[Any]:
    return list(one.deliveries.select_related("message"))


# --- secrets


def test_a_secret_that_ends_in_mid_delivery_signed_this_request_and_no_other(
    acme: Workspace, hook: Receiver
) -> None:
    one, old = endpoints.create(acme, url=hook.url, events=[TOLD], actor=SYSTEM)
    made: list[str] = []

    def rotate() -> None:
        made.append(endpoints.rotate_secret(one.pk, actor=SYSTEM, grace_seconds=0)[1])

    while_sending(hook, rotate)
    hook.answers(500, 200)
    tell(acme)
    mine = attempts(delivery())
    assert (mine.status, codes(mine)) == ("succeeded", ["http_500", "ok"])
    for secret, got in zip((old, made[0]), hook.got, strict=True):
        Webhook(secret).verify(got.body, dict(got.headers))
        assert len(got.headers["webhook-signature"].split()) == 1


# --- the address


@both
def test_a_url_that_leads_where_nobody_is_sent_gives_the_endpoint_up_at_once(
    acme: Workspace, hook: Receiver
) -> None:
    """W-88: changed between two requests. Probing it would be one more try each time."""
    one = endpoint(acme, hook)
    hook.answers(500)
    tell(acme)
    mine = attempt(delivery())
    endpoints.update(one.pk, url="http://10.0.0.5/hook", actor=SYSTEM)
    attempts(mine)
    one.refresh_from_db()
    assert (mine.status, codes(mine)) == ("dead", ["http_500", "blocked_address"])
    assert (one.state, one.reason, Gate.objects.count()) == ("disabled", "blocked_address", 0)
    assert (alert().severity, len(hook.got)) == ("error", 1)
    assert "10.0.0.5" not in job_of(mine).attempts.latest("number").message


@both
def test_sent_by_hand_it_says_nothing_about_the_endpoint(acme: Workspace, hook: Receiver) -> None:
    """W-61: a test that is answered 410, or leads nowhere, does not disable."""
    one = endpoint(acme, hook)
    tell(acme)
    attempts(delivery())
    hook.answers(410)
    assert attempts(redelivered(delivery())).status == "dead"
    hook.answers(Says(500, {"webhook-delivery": "disable"}))
    assert attempts(redelivered(delivery())).status == "dead"
    Endpoint.objects.update(url="http://10.0.0.5/")
    assert attempts(redelivered(delivery())).status == "dead"
    assert codes(delivery()) == ["ok", "gone", "aborted", "blocked_address"]
    one.refresh_from_db()
    assert (one.state, one.failures) == ("active", 0)


def test_a_name_that_turns_to_a_private_address_is_not_followed(
    acme: Workspace, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-82, by the kind itself: one look-up a request, and what it answered is what is used."""
    asked = answering(monkeypatch, ["127.0.0.1"], ["10.0.0.5"], ["127.0.0.1"])
    one = endpoint(acme, hook)
    Endpoint.objects.update(url=f"http://{NAME}:{hook.port}/")
    tell(acme)
    tell(acme)
    first, second = sorted(acme_deliveries(one), key=lambda each: each.pk)
    assert attempts(first).status == "succeeded"
    assert asked == [NAME]
    assert attempts(second).status == "dead"
    assert (asked, codes(second), len(hook.got)) == ([NAME] * 2, ["blocked_address"], 1)


# --- TLS


def whole(client: Any) -> bytes:
    """One request to its last byte."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += client.recv(65536)
    head, _, body = got.partition(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < size:
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> trustme.CA:
    """Whom this machine trusts; names lead to this machine."""
    settings.WEBHOOK_ALLOW_NETWORKS = [ip_network("127.0.0.0/8")]
    answering(monkeypatch, ["127.0.0.1"])
    monkeypatch.setattr(test_webhook_egress, "_read", whole)
    made = trustme.CA()
    monkeypatch.setattr(sending, "_default_context", lambda: trusting(made))
    return made


def by_tls(
    workspace: Workspace, certificate: trustme.LeafCert
) -> tuple[Any, list[bytes], Endpoint]:
    """A delivery to a receiver that shows this certificate, and the requests it could read."""
    accepts = secured(certificate)

    def wrapped(client: Any) -> Any:
        try:
            return accepts(client)
        except ssl.SSLError as refused:
            raise OSError("the client went away") from refused

    with receiving(says(OK), wrapped) as receiver:
        url = f"https://{NAME}:{receiver.port}/"
        one = endpoints.create(workspace, url=url, events=[TOLD], actor=SYSTEM)[0]
        tell(workspace)
        mine = attempts(delivery(endpoint=one))
        one.refresh_from_db()
        assert receiver.connections == 1
        return mine, list(receiver.requests), one


def test_a_certificate_of_its_name_is_trusted(acme: Workspace, authority: trustme.CA) -> None:
    mine, requests, one = by_tls(acme, authority.issue_cert(NAME))
    assert (mine.status, one.state, len(requests)) == ("succeeded", "active", 1)
    assert b"webhook-signature: v1," in requests[0].lower()


@pytest.mark.parametrize("fault", ["another name", "expired", "signed by itself"])
def test_a_bad_certificate_ends_the_delivery_and_is_sent_nothing(
    acme: Workspace, authority: trustme.CA, fault: str
) -> None:
    """W-19."""
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificates = {
        "another name": lambda: authority.issue_cert("other.example.com"),
        "expired": lambda: authority.issue_cert(NAME, not_after=past),
        "signed by itself": lambda: trustme.CA().issue_cert(NAME),
    }
    mine, requests, one = by_tls(acme, certificates[fault]())
    assert (mine.status, codes(mine), requests) == ("dead", ["tls"], [])
    assert (one.state, alert().severity) == ("failing", "warning")


# --- several hands


def test_recover_redeliver_and_enable_at_once_make_one_job(acme: Workspace, hook: Receiver) -> None:
    """Whoever comes first: the dead one goes out once, and the others are told so."""
    one = failing(acme, endpoint(acme, hook), hook)
    endpoints.disable(one.pk, actor=SYSTEM)
    Endpoint.objects.update(state_since=Now() - timedelta(hours=1))
    dead = delivery()

    def bulk() -> None:
        turns(recovered(one).operation)

    results = at_once(
        bulk,
        lambda: redelivered(dead),
        lambda: endpoints.enable(one.pk, actor=SYSTEM),
        lambda: redelivered(dead),
        bulk,
    )
    refused = [each for each in results if isinstance(each, Exception)]
    assert all(isinstance(each, FiredoorError | WebhooksError | JobsError) for each in refused)
    one.refresh_from_db()
    assert one.state == "failing"
    dead.refresh_from_db()
    jobs = Job.objects.filter(kind="webhooks.deliver")
    assert jobs.count() == dead.sends <= 2
    assert not jobs.filter(state="running").exists()
    hook.answers(200)
    if dead.status == "dead":  # all came before it was enabled
        redelivered(dead)
    probe()
    assert attempts(dead).status == "succeeded"
    assert len(hook.got) == 2
    assert DeliveryAttempt.objects.filter(code="ok").count() == 1


def test_of_twelve_redeliveries_at_once_one_sends(acme: Workspace, hook: Receiver) -> None:
    """W-63: nobody waits for the first one's lock who can see that it is on its way."""
    endpoint(acme, hook)
    tell(acme)
    mine = attempts(delivery())
    redelivered(mine)
    stale = delivery()
    with pytest.raises(WebhooksError) as refused:
        redelivered(stale)
    assert refused.value.code == "webhook_delivery_in_flight"
    attempts(stale)
    results = at_once(*[lambda: redelivered(stale)] * 12)
    told = [getattr(each, "code", "sent") for each in results]
    assert told.count("sent") == 1
    assert set(told) <= {"sent", "webhook_delivery_in_flight", "busy"}
    assert Job.objects.filter(kind="webhooks.deliver").count() == 3
