"""One message on its way: what is sent, how often, and what is kept. Counted at the receiver."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from standardwebhooks.webhooks import Webhook

from alerts.models import Alert
from jobs import runner
from jobs.events import emit
from jobs.models import Event, Job
from jobs.sweep import sweep
from jobs.testing import drain
from tests.integration.kernel.scene import started
from tests.integration.webhooks.scene import (
    TOLD,
    alert,
    attempt,
    attempts,
    codes,
    delivery,
    endpoint,
    job_of,
    tell,
    waits,
)
from tests.support.receiver import Receiver, Says
from webhooks import endpoints, evidence, requests, success
from webhooks.models import DeliveryAttempt, Endpoint, EndpointSecret, Message, WebhookDelivery
from webhooks.sealing import unseal
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace

pytestmark = pytest.mark.django_db(transaction=True)
both = pytest.mark.sqlite


@both
def test_what_is_told_reaches_the_receiver_signed(acme: Workspace, hook: Receiver) -> None:
    one, secret = endpoints.create(acme, url=hook.url, events=[TOLD], actor=SYSTEM)
    event_id = tell(acme)
    drain()

    (got,) = hook.got
    assert Webhook(secret).verify(got.body, dict(got.headers)) == json.loads(got.body)
    told = json.loads(got.body)
    assert (told["type"], told["id"]) == (TOLD, got.message_id)
    assert told["data"] == {
        **{"verb": "resume", "state": "finished", "counts": {"done": 3}},
        **{"subject": "subject-1", "sequence": event_id},
    }
    assert datetime.fromisoformat(told["timestamp"]).tzinfo == UTC
    assert got.headers["content-type"] == "application/json"
    assert got.headers["webhook-attempt"] == "1"
    assert got.path == "/hook?key=hunter2-in-the-url"
    mine = delivery(endpoint=one)
    assert (mine.status, codes(mine)) == ("succeeded", ["ok"])


@both
def test_three_requests_at_most_and_all_the_same_but_for_their_time(
    acme: Workspace, hook: Receiver
) -> None:
    """W-03, W-10."""
    one = endpoint(acme, hook)
    hook.answers(500)
    tell(acme)
    mine = delivery()

    attempt(mine)
    assert 30 - 3 <= waits(mine) <= 45
    attempt(mine)
    assert 300 - 3 <= waits(mine) <= 450
    attempt(mine)
    attempt(mine)

    assert len(hook.got) == 3
    assert len({(got.message_id, got.body) for got in hook.got}) == 1
    assert [got.headers["webhook-attempt"] for got in hook.got] == ["1", "2", "3"]
    assert (mine.status, codes(mine)) == ("dead", ["http_500"] * 3)
    one.refresh_from_db()
    assert (one.state, one.failures) == ("failing", 1)
    assert (alert().severity, alert().count, Alert.objects.count()) == ("warning", 1, 1)


@both
def test_a_success_at_the_last_request_is_one(acme: Workspace, hook: Receiver) -> None:
    """W-11."""
    one = endpoint(acme, hook)
    hook.answers(500, 500, 200)
    tell(acme)
    mine = attempts(delivery())
    assert (mine.status, len(hook.got)) == ("succeeded", 3)
    one.refresh_from_db()
    assert one.state == "active"
    assert not Alert.objects.exists()


@both
@pytest.mark.parametrize("status", [204, 299])
def test_any_2xx_is_success(acme: Workspace, hook: Receiver, status: int) -> None:
    """W-17."""
    endpoint(acme, hook)
    hook.answers(Says(status, body=b""))
    tell(acme)
    assert attempt(delivery()).status == "succeeded"


@both
@pytest.mark.parametrize("status", [300, 302, 307, 400, 401, 404, 405, 409, 422])
def test_what_no_repetition_changes_is_sent_once(
    acme: Workspace, hook: Receiver, status: int
) -> None:
    """W-12, W-13: the other place is never asked."""
    one = endpoint(acme, hook)
    hook.answers(Says(status, {"location": f"http://127.0.0.1:{hook.port}/elsewhere"}))
    tell(acme)
    mine = attempts(delivery())
    one.refresh_from_db()
    assert (mine.status, one.state, alert().severity) == ("dead", "failing", "warning")
    assert [got.path for got in hook.got] == ["/hook?key=hunter2-in-the-url"]


@both
def test_gone_means_never_again(acme: Workspace, hook: Receiver) -> None:
    """W-14."""
    one = endpoint(acme, hook)
    hook.answers(410)
    tell(acme)
    assert attempts(delivery()).status == "dead"
    one.refresh_from_db()
    assert (one.state, one.reason, len(hook.got)) == ("disabled", "gone", 1)
    assert (alert().severity, alert().count) == ("error", 1)


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ("120", 120, 135),
        ("0", 30, 45),
        ("-5", 30, 45),
        ("1.5", 30, 45),
        ("soon", 30, 45),
        ("1" + "0" * 20, 900, 915),
        ("", 30, 45),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_the_receiver_may_ask_for_more_time(
    acme: Workspace, hook: Receiver, status: int, said: str, least: float, most: float
) -> None:
    """W-15, W-16."""
    endpoint(acme, hook)
    hook.answers(Says(status, {"retry-after": said} if said else {}))
    tell(acme)
    attempt(delivery())
    assert least - 3 <= waits(delivery()) <= most


def test_it_may_ask_by_a_date(acme: Workspace, hook: Receiver) -> None:
    endpoint(acme, hook)
    at = datetime.now(UTC) + timedelta(seconds=200)
    hook.answers(Says(503, {"retry-after": at.strftime("%a, %d %b %Y %H:%M:%S GMT")}))
    tell(acme)
    attempt(delivery())
    assert 195 <= waits(delivery()) <= 216


def test_who_asks_for_time_gets_it_from_all_messages(acme: Workspace, hook: Receiver) -> None:
    endpoint(acme, hook)
    hook.answers(Says(429, {"retry-after": "120"}))
    tell(acme)
    tell(acme)
    first, second = WebhookDelivery.objects.order_by("pk")
    attempt(first)
    attempt(second)
    assert len(hook.got) == 1
    assert job_of(second).attempt == 0


def test_an_endpoint_has_delays_of_its_own(acme: Workspace, hook: Receiver) -> None:
    endpoint(acme, hook, delays=[5, 600])
    hook.answers(500)
    tell(acme)
    mine = attempt(delivery())
    assert 2 <= waits(mine) <= 8
    assert 597 <= waits(attempt(mine)) <= 900


@both
def test_a_connection_that_breaks_is_tried_again(acme: Workspace, hook: Receiver) -> None:
    """W-18."""
    endpoint(acme, hook)
    hook.answers(0, 200)
    tell(acme)
    mine = attempts(delivery())
    assert (mine.status, codes(mine)) == ("succeeded", ["reset", "ok"])


def test_nobody_there_is_tried_again(acme: Workspace, hook: Receiver) -> None:
    one = endpoint(acme, hook)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    Endpoint.objects.filter(pk=one.pk).update(url=f"http://127.0.0.1:{port}/")
    tell(acme)
    mine = attempt(delivery())
    assert (mine.status, codes(mine)) == ("open", ["connect"])


@both
def test_what_a_hostile_receiver_answers_is_kept_safely(acme: Workspace, hook: Receiver) -> None:
    """W-21, W-24."""
    endpoint(acme, hook)
    body = b"\x00\xff\xed\xa0\x80 password=hunter2-echoed " + b"x" * 50_000
    hook.answers(Says(200, {"server": "a" * 2000, "set-cookie": "session=1"}, body))
    tell(acme)
    mine = attempt(delivery())
    (row,) = DeliveryAttempt.objects.filter(delivery=mine)
    assert mine.status == "succeeded"
    assert "\x00" not in row.excerpt
    assert "hunter2-echoed" not in row.excerpt
    assert len(row.excerpt) <= 4096
    assert len(row.headers["server"]) <= 300
    assert "set-cookie" not in row.headers


def test_where_it_may_not_go_nothing_is_sent_and_no_address_is_told(
    acme: Workspace, hook: Receiver, settings: Any
) -> None:
    """W-88."""
    endpoint(acme, hook)
    settings.WEBHOOK_ALLOW_NETWORKS = []
    tell(acme)
    mine = attempts(delivery())
    assert (mine.status, codes(mine), hook.got) == ("dead", ["blocked_address"], [])
    message = job_of(mine).attempts.get().message
    assert message == "The destination is not allowed. [blocked_address]"
    event = AuditEvent.objects.get(action="webhook.send")
    assert (event.result, event.actor) == ("blocked_address", "system")
    kept = DeliveryAttempt.objects.values("headers", "excerpt", "code").get()
    assert "127.0.0.1" not in json.dumps(kept)


@both
@pytest.mark.parametrize("broken", ["secret", "headers", "url"])
def test_what_cannot_be_used_is_never_sent(acme: Workspace, hook: Receiver, broken: str) -> None:
    """W-09: never signed with what the database holds."""
    one = endpoint(acme, hook)
    if broken == "secret":
        EndpointSecret.objects.update(sealed="gAAAAAB-not-ours")
    elif broken == "headers":
        Endpoint.objects.update(headers="gAAAAAB-not-ours")
    else:
        Endpoint.objects.update(url="ftp://127.0.0.1/")
    tell(acme)
    mine = attempts(delivery())
    assert (mine.status, codes(mine), hook.got) == ("dead", ["config"], [])
    one.refresh_from_db()
    assert one.state == "failing"


@both
def test_a_doubled_message_sends_once(acme: Workspace, hook: Receiver) -> None:
    """W-25."""
    endpoint(acme, hook)
    tell(acme)
    job = job_of(delivery())
    Job.objects.update(run_at=Now())
    assert [runner.execute(job.kind, job.pk) for _ in range(3)] == [True, False, False]
    assert len(hook.got) == 1


def test_a_lost_worker_is_an_attempt_and_the_message_stays_the_same(
    acme: Workspace, hook: Receiver
) -> None:
    """W-26, W-27: whatever is lost, three requests at most."""
    endpoint(acme, hook)
    hook.answers(500)
    tell(acme)
    mine = attempt(delivery())
    Job.objects.update(run_at=Now())
    started(job_of(mine), lease=-1)
    sweep(reap_now=True)
    attempts(mine)
    assert len(hook.got) == 2
    assert len(set(hook.ids)) == 1
    assert (mine.status, job_of(mine).failures) == ("dead", 3)


def test_a_late_worker_writes_nothing(acme: Workspace, hook: Receiver) -> None:
    """W-27: its fence is gone; only what it saw is kept."""
    endpoint(acme, hook)
    tell(acme)
    mine = delivery()
    job = job_of(mine)

    def lose() -> Says:
        Job.objects.filter(pk=job.pk).update(lease_until=Now() - timedelta(seconds=1))
        sweep(reap_now=True)
        connection.close()  # this thread's own
        return Says(200)

    taken = hook.take

    def take(got: Any) -> Says:
        taken(got)
        return lose()

    hook.take = take  # type: ignore[method-assign]
    attempt(mine)
    assert (mine.status, job_of(mine).state) == ("open", "queued")


@both
def test_what_is_rolled_back_is_not_told(acme: Workspace, hook: Receiver) -> None:
    """W-29."""
    endpoint(acme, hook)
    with transaction.atomic():
        emit(TOLD, acme, "subject-1", {})
        transaction.set_rollback(True)
    drain()
    assert (hook.got, Message.objects.count(), Job.objects.count()) == ([], 0, 0)


@both
def test_an_event_that_is_delivered_twice_is_told_once(acme: Workspace, hook: Receiver) -> None:
    """W-32."""
    endpoint(acme, hook)
    tell(acme)
    Event.objects.update(delivered_at=None)
    sweep()
    drain()
    assert len(hook.got) == 1
    assert WebhookDelivery.objects.count() == 1


@both
def test_disabled_between_two_requests_means_no_more(acme: Workspace, hook: Receiver) -> None:
    """W-30."""
    one = endpoint(acme, hook)
    hook.answers(500)
    tell(acme)
    mine = attempt(delivery())
    endpoints.disable(one.pk, actor=SYSTEM)
    attempts(mine)
    assert (mine.status, len(hook.got)) == ("cancelled", 1)


@both
def test_a_new_url_counts_from_the_next_request_on(acme: Workspace, hook: Receiver) -> None:
    """W-31."""
    one = endpoint(acme, hook)
    hook.answers(500, 200)
    tell(acme)
    mine = attempt(delivery())
    endpoints.update(one.pk, url=f"http://127.0.0.1:{hook.port}/new", actor=SYSTEM)
    attempts(mine)
    assert [got.path for got in hook.got] == ["/hook?key=hunter2-in-the-url", "/new"]
    kept = DeliveryAttempt.objects.order_by("pk").values_list("url", flat=True)
    assert [url.endswith("/new") for url in kept] == [False, True]


@both
def test_all_live_secrets_sign_and_expired_ones_do_not(acme: Workspace, hook: Receiver) -> None:
    """W-04, W-05."""
    one, old = endpoints.create(acme, url=hook.url, events=[TOLD], actor=SYSTEM)
    _one, new = endpoints.rotate_secret(one.pk, actor=SYSTEM)
    hook.answers(500, 200)
    tell(acme)
    mine = attempt(delivery())
    first = hook.got[0]
    for secret in (old, new):
        Webhook(secret).verify(first.body, dict(first.headers))
    EndpointSecret.objects.exclude(expires_at=None).update(expires_at=Now())
    attempts(mine)
    second = hook.got[1]
    Webhook(new).verify(second.body, dict(second.headers))
    assert len(second.headers["webhook-signature"].split()) == 1


@both
def test_rotating_without_grace_ends_all_earlier_ones(acme: Workspace, hook: Receiver) -> None:
    """W-06."""
    one, _old = endpoints.create(acme, url=hook.url, events=[TOLD], actor=SYSTEM)
    endpoints.rotate_secret(one.pk, actor=SYSTEM)
    _one, new = endpoints.rotate_secret(one.pk, actor=SYSTEM, grace_seconds=0)
    assert [unseal(row.sealed) for row in requests.live_secrets(one)] == [new]


@both
def test_tenants_headers_go_along_and_are_sealed(acme: Workspace, hook: Receiver) -> None:
    one = endpoint(acme, hook, headers={"X-Tenant": "hunter2-header"})
    tell(acme)
    drain()
    assert hook.got[0].headers["x-tenant"] == "hunter2-header"
    assert "hunter2" not in one.headers
    assert "hunter2" not in EndpointSecret.objects.get().sealed


@both
def test_a_message_too_large_is_told_thin(acme: Workspace, hook: Receiver) -> None:
    endpoint(acme, hook)
    event_id = tell(acme, note="ä" * 200_000)
    drain()
    told = json.loads(hook.got[0].body)
    assert told["data"] == {"subject": "subject-1", "sequence": event_id, "left_out": True}


@both
def test_every_endpoint_gets_the_same_bytes(acme: Workspace, hook: Receiver) -> None:
    endpoint(acme, hook)
    endpoint(acme, hook, events=["*"])
    endpoint(acme, hook, events=["alert.opened"])
    tell(acme)
    drain()
    assert len(hook.got) == 2
    assert len({(got.message_id, got.body) for got in hook.got}) == 1
    assert len({got.headers["webhook-signature"] for got in hook.got}) == 2


@both
def test_evidence_that_cannot_be_written_repeats_no_request(
    acme: Workspace, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import OperationalError

    def fails(*_: Any, **__: Any) -> None:
        raise OperationalError("no database")

    endpoint(acme, hook)
    tell(acme)
    monkeypatch.setattr(DeliveryAttempt.objects, "bulk_create", fails)
    assert attempt(delivery()).status == "succeeded"
    assert len(hook.got) == 1


def test_a_success_whose_statement_fails_is_written_in_the_usual_way(
    acme: Workspace, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint(acme, hook)
    tell(acme)
    broken = success._WRITES.replace("status = 'succeeded'", "status = (1 / 0)::text")
    monkeypatch.setattr(success, "_WRITES", broken)
    mine = attempt(delivery())
    assert (mine.status, codes(mine), len(hook.got)) == ("succeeded", ["ok"], 1)


def test_a_success_is_kept_by_the_statement_that_ends_its_job(
    acme: Workspace, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that the usual way keeps of it, which is not gone."""
    one = endpoint(acme, hook)
    hook.answers(Says(202, {"x-request-id": "r-1"}, b"taken"))
    tell(acme)
    monkeypatch.setattr(evidence, "keep", None)
    mine = attempt(delivery())
    (row,) = DeliveryAttempt.objects.filter(delivery=mine)
    job = job_of(mine)
    assert (mine.status, mine.finished_at) == ("succeeded", job.finished_at)
    assert job.result == {"code": "ok", "status": 202}
    assert (row.job_id, row.number, row.trigger, row.url) == (job.pk, 1, "automatic", one.url)
    assert (row.code, row.status_code, row.excerpt) == ("ok", 202, "taken")
    assert row.headers["x-request-id"] == "r-1"
    assert row.milliseconds >= 0
    assert row.ended_at is not None
