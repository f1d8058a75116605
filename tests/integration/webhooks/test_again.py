"""Sending by hand: redeliver, test, recover what was missed; new secrets and new sealing keys."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings
from standardwebhooks.webhooks import Webhook

from jobs.errors import NothingEligible, Refused
from jobs.models import Job, Operation, OperationItem
from jobs.models.job import DEAD_LETTER
from jobs.recovery.item_verbs import verb_named
from jobs.recovery.operation import stop
from jobs.recovery.retry import retry
from jobs.testing import drain
from tests.integration.bulk_scene import actor, member, turns
from tests.integration.kernel.sessions import at_once
from tests.integration.webhooks.scene import (
    attempt,
    attempts,
    codes,
    deliveries,
    delivery,
    endpoint,
    failing,
    job_of,
    probe,
    tell,
)
from tests.support.receiver import Receiver
from webhooks import again, endpoints, recover, sealing
from webhooks.errors import (
    DeliveryInFlight,
    DeliveryNotFound,
    EndpointDisabled,
    EndpointInvalid,
    EndpointNotFound,
    RecoverRunning,
    SecretsFull,
    UrlInvalid,
    WindowInvalid,
)
from webhooks.management.commands import rotate_sealing
from webhooks.models import DeliveryAttempt, Endpoint, EndpointSecret, WebhookDelivery
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import NotAllowed, Role

pytestmark = pytest.mark.django_db(transaction=True)
both = pytest.mark.sqlite
WHY = "the receiver is mended"


def redelivered(one: WebhookDelivery) -> WebhookDelivery:
    return again.redeliver(one.pk, actor=SYSTEM, reason=WHY)


def recovered(one: Endpoint, **more: Any) -> recover.Recovery:
    told = {"since": timezone.now() - timedelta(days=1), "actor": SYSTEM, "reason": WHY, **more}
    return recover.recover(one.pk, **told)


# --- redeliver


@both
def test_a_dead_one_is_sent_again_as_it_was_and_once(acme: Workspace, hook: Receiver) -> None:
    """W-60: the same id and bytes, the secrets of now, one request."""
    one = failing(acme, endpoint(acme, hook), hook)
    _one, secret = endpoints.rotate_secret(one.pk, actor=SYSTEM, grace_seconds=0)
    mine = redelivered(deliveries()[0])
    assert mine.status == "open"
    attempts(mine)
    first, second = hook.got
    assert (first.message_id, first.body) == (second.message_id, second.body)
    Webhook(secret).verify(second.body, dict(second.headers))
    triggers = DeliveryAttempt.objects.order_by("pk").values_list("trigger", flat=True)
    assert list(triggers) == ["automatic", "manual"]
    letters = Job.objects.filter(DEAD_LETTER).values_list("pk", flat=True)
    assert list(letters) == [mine.job_id]


@both
def test_what_fails_by_hand_says_nothing_about_the_endpoint(
    acme: Workspace, hook: Receiver
) -> None:
    """W-61: nor is it tried again."""
    one = endpoint(acme, hook)
    tell(acme)
    attempts(delivery())
    hook.answers(500)
    mine = attempts(redelivered(delivery()))
    one.refresh_from_db()
    assert (mine.status, len(hook.got)) == ("dead", 2)
    assert (one.state, one.failures) == ("active", 0)


@both
def test_what_succeeds_by_hand_heals(acme: Workspace, hook: Receiver) -> None:
    """W-62 as well: it had been dead, and goes round the closed gate."""
    one = failing(acme, endpoint(acme, hook), hook)
    hook.answers(200)
    attempts(redelivered(deliveries()[0]))
    one.refresh_from_db()
    assert one.state == "active"
    deed = AuditEvent.objects.get(action="webhook.redeliver")
    assert (deed.reason, deed.result) == (WHY, "done")


@both
def test_a_success_may_be_sent_again(acme: Workspace, hook: Receiver) -> None:
    """W-62."""
    endpoint(acme, hook)
    tell(acme)
    attempts(delivery())
    assert attempts(redelivered(delivery())).status == "succeeded"
    assert len(set(hook.ids)) == 1
    assert len(hook.got) == 2
    assert AuditEvent.objects.filter(action="webhook.redeliver", result="done").count() == 1


@both
def test_what_is_on_its_way_is_not(acme: Workspace, hook: Receiver) -> None:
    """W-63."""
    endpoint(acme, hook)
    tell(acme)
    with pytest.raises(DeliveryInFlight):
        redelivered(delivery())
    assert Job.objects.count() == 1


@both
def test_nothing_goes_to_a_disabled_endpoint(acme: Workspace, hook: Receiver) -> None:
    one = failing(acme, endpoint(acme, hook), hook)
    letter = job_of(deliveries()[0])
    endpoints.disable(one.pk, actor=SYSTEM)
    for deed in (
        lambda: redelivered(deliveries()[0]),
        lambda: again.send_test(one.pk, actor=SYSTEM),
        lambda: recovered(one),
    ):
        with pytest.raises(EndpointDisabled):
            deed()
    with pytest.raises(Refused, match="disabled"):
        retry(letter.pk, mode="resume", actor=SYSTEM, reason=WHY)


@both
def test_a_retry_of_its_job_is_a_delivery_too(acme: Workspace, hook: Receiver) -> None:
    failing(acme, endpoint(acme, hook), hook)
    mine = deliveries()[0]
    letter = job_of(mine)
    successor = retry(letter.pk, mode="resume", actor=SYSTEM, reason=WHY)
    mine.refresh_from_db()
    assert (mine.status, mine.job_id) == ("open", successor.pk)
    hook.answers(200)
    probe()
    assert attempts(mine).status == "succeeded"


@both
def test_an_old_job_of_a_delivery_is_not_retried(acme: Workspace, hook: Receiver) -> None:
    failing(acme, endpoint(acme, hook), hook)
    letter = job_of(deliveries()[0])
    attempts(redelivered(deliveries()[0]))
    Job.objects.filter(pk=letter.pk).update(resolved_at=None)
    with pytest.raises(Refused, match="another job"):
        retry(letter.pk, mode="restart", actor=SYSTEM, reason=WHY)


# --- test


@both
def test_a_test_is_sent_although_it_is_failing_and_heals(acme: Workspace, hook: Receiver) -> None:
    one = failing(acme, endpoint(acme, hook), hook)
    hook.answers(200)
    sent = attempts(again.send_test(one.pk, actor=SYSTEM))
    one.refresh_from_db()
    assert (sent.message.type, sent.status, one.state) == ("webhook.test", "succeeded", "active")
    assert b'"type":"webhook.test"' in hook.got[-1].body


# --- recover


@both
def test_what_is_dead_is_recovered_and_what_was_taken_is_not(
    acme: Workspace, hook: Receiver
) -> None:
    """W-64."""
    one = endpoint(acme, hook)
    tell(acme)
    attempts(deliveries()[0])
    failing(acme, one, hook)
    taken = attempts(redelivered(deliveries()[0]))
    assert taken.status == "dead", "by hand, after it had been taken"
    found = recovered(one)
    turns(found.operation)
    items = OperationItem.objects.filter(operation=found.operation)
    assert [item.object_id for item in items] == [str(deliveries()[1].pk)]
    assert (items.get().outcome, found.left) == ("done", 0)
    hook.answers(200)
    probe()
    assert attempts(deliveries()[1]).status == "succeeded"
    assert job_of(deliveries()[1]).retry_of_id is not None


@both
def test_skipped_ones_are_recovered_if_asked_for(acme: Workspace, hook: Receiver) -> None:
    """W-49, second half."""
    one = endpoint(acme, hook)
    endpoints.disable(one.pk, actor=SYSTEM)
    tell(acme)
    Endpoint.objects.update(state_since=Now() - timedelta(hours=1))
    endpoints.enable(one.pk, actor=SYSTEM)
    with pytest.raises(NothingEligible):
        recovered(one)
    assert not Operation.objects.exists(), "what was not started is not in the way"
    found = recovered(one, include_skipped=True)
    turns(found.operation)
    probe()
    assert attempts(deliveries()[0]).status == "succeeded"


@both
def test_only_one_recovery_at_a_time(acme: Workspace, hook: Receiver) -> None:
    """W-66."""
    one = failing(acme, endpoint(acme, hook), hook)
    found = recovered(one)
    with pytest.raises(RecoverRunning) as refused:
        recovered(one)
    assert refused.value.members == {"operation_id": str(found.operation.pk)}
    stop(found.operation.pk, actor=SYSTEM, reason=WHY)
    assert recovered(one).operation.pk != found.operation.pk


def test_of_two_recoveries_at_the_same_moment_one_begins(acme: Workspace, hook: Receiver) -> None:
    """W-66."""
    one = failing(acme, endpoint(acme, hook), hook)
    results = at_once(*[lambda: recovered(one)] * 3)
    assert [type(each) for each in results].count(RecoverRunning) == 2
    assert Operation.objects.count() == 1


@both
@pytest.mark.parametrize("days", [14.1, -1.0])
def test_a_window_has_two_weeks_and_ends_after_it_begins(
    acme: Workspace, hook: Receiver, days: float
) -> None:
    """W-68."""
    one = failing(acme, endpoint(acme, hook), hook)
    with pytest.raises(WindowInvalid):
        recovered(one, since=timezone.now() - timedelta(days=days), until=timezone.now())


def test_more_than_one_operation_holds_are_counted(
    acme: Workspace, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-65: never silently."""
    one = failing(acme, endpoint(acme, hook), hook)
    monkeypatch.setattr(recover, "ITEMS_LIMIT", 2)
    for _ in range(3):
        tell(acme)
        probe()
        attempts(deliveries()[-1])
    found = recovered(one)
    assert (found.operation.selected, found.left) == (2, 2)
    turns(found.operation)
    hook.answers(200)
    probe()
    for each in deliveries()[:2]:
        attempts(each)
    assert [each.status for each in deliveries()] == ["succeeded", "succeeded", "dead", "dead"]
    assert recovered(one).operation.selected == 2


@both
def test_each_item_is_authorised_when_its_turn_comes(acme: Workspace, hook: Receiver) -> None:
    one = failing(acme, endpoint(acme, hook), hook)
    ana = member(acme)
    found = recovered(one, actor=actor(ana))
    endpoints.disable(one.pk, actor=SYSTEM)
    turns(found.operation)
    item = OperationItem.objects.get(operation=found.operation)
    assert (item.outcome, item.code) == ("skipped", "webhook_endpoint_disabled")
    assert len(hook.got) == 1


# --- who may what


@both
def test_rights(acme: Workspace, hook: Receiver) -> None:
    one = failing(acme, endpoint(acme, hook), hook)
    looker, operator = actor(member(acme, Role.VIEWER, "vic")), actor(member(acme))
    stranger = actor(
        member(Workspace.objects.create(slug="rival", name="Rival"), Role.ADMIN, "rob")
    )
    for refused in (
        lambda: again.redeliver(deliveries()[0].pk, actor=looker, reason=WHY),
        lambda: again.send_test(one.pk, actor=looker),
        lambda: recovered(one, actor=looker),
    ):
        with pytest.raises(NotAllowed) as told:
            refused()
        assert told.value.right in ("webhooks.operate", "jobs.operate")
    judge = verb_named("recover").judge
    (judged,) = judge(acme.pk, [str(deliveries()[0].pk)], looker)
    assert judged.code == "not_allowed"
    with pytest.raises(NotAllowed):
        endpoints.disable(one.pk, actor=operator)
    with pytest.raises(NotAllowed):
        endpoints.create(acme, url=hook.url, events=["*"], actor=operator)
    for deed in (endpoints.disable, endpoints.enable, endpoints.rotate_secret, again.send_test):
        with pytest.raises(EndpointNotFound):
            deed(one.pk, actor=stranger)
    with pytest.raises(DeliveryNotFound):
        again.redeliver(deliveries()[0].pk, actor=stranger, reason=WHY)
    assert again.redeliver(deliveries()[0].pk, actor=operator, reason=WHY).status == "open"


# --- endpoints and their secrets


@both
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"url": "https://user@hooks.example.com/"}, UrlInvalid),
        ({"url": "https://hooks.example.com/#part"}, UrlInvalid),
        ({"url": "ftp://hooks.example.com/"}, UrlInvalid),
        ({"url": "https://hooks.example.com/" + "a" * 2100}, UrlInvalid),
        ({"events": []}, EndpointInvalid),
        ({"events": ["job.unheard_of"]}, EndpointInvalid),
        ({"headers": {"Host": "elsewhere"}}, EndpointInvalid),
        ({"delays": []}, EndpointInvalid),
        ({"delays": [1, 2, 3]}, EndpointInvalid),
        ({"delays": [0.5]}, EndpointInvalid),
        ({"delays": [901]}, EndpointInvalid),
    ],
)
def test_what_cannot_be_is_refused(
    acme: Workspace, hook: Receiver, change: dict[str, Any], error: type[Exception]
) -> None:
    """W-86, W-90."""
    one = endpoint(acme, hook)
    before = Endpoint.objects.values().get()
    with pytest.raises(error):
        endpoints.update(one.pk, actor=SYSTEM, **change)
    with pytest.raises(error):
        endpoints.create(acme, **{"url": hook.url, "events": ["*"], "actor": SYSTEM, **change})
    assert Endpoint.objects.values().get() == before


@both
def test_a_sixth_secret_has_to_wait(acme: Workspace, hook: Receiver) -> None:
    """W-07."""
    one = endpoint(acme, hook)
    for _ in range(4):
        endpoints.rotate_secret(one.pk, actor=SYSTEM)
    with pytest.raises(SecretsFull):
        endpoints.rotate_secret(one.pk, actor=SYSTEM)
    endpoints.rotate_secret(one.pk, actor=SYSTEM, grace_seconds=0)


@both
def test_no_secret_and_no_header_is_in_the_trail(acme: Workspace, hook: Receiver) -> None:
    one, secret = endpoints.create(
        acme, url=hook.url, events=["*"], actor=SYSTEM, headers={"X-Key": "hunter2-header"}
    )
    _one, second = endpoints.rotate_secret(one.pk, actor=SYSTEM)
    trail = str(list(AuditEvent.objects.values()))
    for hidden in (secret, second, secret.removeprefix("whsec_"), "hunter2"):
        assert hidden not in trail
    assert EndpointSecret.objects.filter(hint=secret[-4:]).exists()


@both
def test_everything_is_sealed_again_with_the_newest_key(
    acme: Workspace, hook: Receiver, settings: Settings
) -> None:
    one, secret = endpoints.create(
        acme, url=hook.url, events=["*"], actor=SYSTEM, headers={"X-Key": "a"}
    )
    old, new = settings.WEBHOOK_SEALING_KEYS, Fernet.generate_key().decode()
    settings.WEBHOOK_SEALING_KEYS = [new, *old]
    out = io.StringIO()
    call_command("rotate_sealing", stdout=out)
    assert out.getvalue() == "Sealed again: 2.\n"
    settings.WEBHOOK_SEALING_KEYS = [new]
    one.refresh_from_db()
    assert sealing.unseal(EndpointSecret.objects.get().sealed) == secret
    assert sealing.unseal_headers(one.headers) == {"X-Key": "a"}
    settings.WEBHOOK_SEALING_KEYS = old
    with pytest.raises(CommandError, match="No key here opens 2: EndpointSecret"):
        call_command("rotate_sealing", stdout=io.StringIO())


def test_a_secret_that_is_pruned_while_all_are_sealed_again_is_passed_over(
    acme: Workspace, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint(acme, hook)
    sealed = rotate_sealing.Command._one

    def pruned(self: Any, model: Any, pk: Any, column: str) -> None:
        EndpointSecret.objects.all().delete()
        sealed(self, model, pk, column)

    monkeypatch.setattr(rotate_sealing.Command, "_one", pruned)
    call_command("rotate_sealing", stdout=io.StringIO())
    assert not EndpointSecret.objects.exists()


@both
def test_an_opt_in_is_known_at_once_in_this_process(acme: Workspace, hook: Receiver) -> None:
    from tests.drills.kinds import repeatable

    def done(key: str) -> None:
        repeatable.s(ledger="/dev/null").enqueue(workspace=acme, key=key)
        drain()

    done("before")
    one = endpoint(acme, hook, events=["job.succeeded"])
    done("told")
    endpoints.update(one.pk, events=["job.dead"], actor=SYSTEM)
    done("after")
    assert [mine.message.type for mine in deliveries()] == ["job.succeeded"]
    assert codes(attempt(deliveries()[0])) == ["ok"] or len(hook.got) == 1
