"""Endpoints that fail, heal and are given up; what waits for them; and the one alert about each."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from alerts.models import Alert
from jobs import runner
from jobs.events import deliver_now
from jobs.models import Event, Gate, Job, Upkeep
from jobs.sweep import sweep
from tests.integration.kernel.sessions import at_once
from tests.integration.webhooks.scene import (
    TOLD,
    alert,
    attempt,
    attempts,
    deliveries,
    endpoint,
    failing,
    job_of,
    known,
    probe,
    tell,
)
from tests.support.receiver import Receiver, Says
from webhooks import again, backlog, endpoints
from webhooks.errors import EnabledTooSoon
from webhooks.models import Endpoint, WebhookDelivery
from workspaces import closing
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, Workspace

pytestmark = pytest.mark.django_db(transaction=True)
both = pytest.mark.sqlite


def ago(one: Endpoint, **columns: float) -> None:
    """Let moments of an endpoint lie so many hours back."""
    changes = {name: Now() - timedelta(hours=hours) for name, hours in columns.items()}
    Endpoint.objects.filter(pk=one.pk).update(**changes)


def hour_passes() -> None:
    """The pass that looks after what happens once an hour."""
    Upkeep.objects.filter(name="prune").delete()
    sweep()


def events_of(one: Endpoint) -> list[str]:
    rows = Event.objects.filter(subject=str(one.pk)).order_by("pk")
    return list(rows.values_list("type", flat=True))


@both
def test_a_final_failure_opens_one_warning_and_the_next_counts_in_it(
    acme: Workspace, hook: Receiver
) -> None:
    """W-40."""
    one = failing(acme, endpoint(acme, hook), hook)
    assert (alert().severity, alert().count) == ("warning", 1)
    assert "127.0.0.1" in alert().title
    assert "hunter2" not in f"{alert().title}{alert().summary}{alert().trace}"
    tell(acme)
    probe()
    attempts(deliveries()[-1])
    one.refresh_from_db()
    assert (alert().count, one.failures) == (2, 2)
    assert alert().trace["delivery_id"] == str(deliveries()[-1].pk)


def test_deaths_at_the_same_moment_open_one_alert(acme: Workspace, hook: Receiver) -> None:
    """W-41."""
    one = endpoint(acme, hook)
    hook.answers(400)
    for _ in range(3):
        tell(acme)
    jobs = [job_of(each) for each in deliveries()]
    Job.objects.update(run_at=Now())
    at_once(*(lambda job=job: runner.execute(job.kind, job.pk) for job in jobs))
    one.refresh_from_db()
    dead = WebhookDelivery.objects.filter(status="dead").count()
    assert dead >= 1
    assert (alert().count, one.failures) == (dead, dead)
    assert Alert.objects.count() == 1


@both
def test_while_it_fails_messages_wait_and_cost_nothing(acme: Workspace, hook: Receiver) -> None:
    """W-43."""
    failing(acme, endpoint(acme, hook), hook)
    hook.answers(500)
    for _ in range(3):
        tell(acme)
    waiting = deliveries()[1:]
    for one in waiting:
        attempt(one)
    assert len(hook.got) == 1
    assert [job_of(one).attempt for one in waiting] == [0, 0, 0]
    assert probe() is True
    for one in waiting:
        attempt(one)
    assert len(hook.got) == 2
    assert [job_of(one).attempt for one in waiting] == [1, 0, 0]


@both
def test_a_probe_that_is_taken_heals_and_lets_the_rest_go(acme: Workspace, hook: Receiver) -> None:
    """W-42."""
    one = failing(acme, endpoint(acme, hook), hook)
    tell(acme)
    tell(acme)
    hook.answers(200)
    probe()
    waiting = deliveries()[1:]
    assert attempt(waiting[0]).status == "succeeded"
    one.refresh_from_db()
    assert (one.state, one.failures, Gate.objects.count()) == ("active", 0, 0)
    assert events_of(one) == ["webhook.endpoint_failing", "webhook.endpoint_active"]
    assert Alert.objects.get().state == "resolved"
    assert attempt(waiting[1]).status == "succeeded"


@both
@pytest.mark.parametrize(
    ("failures", "since", "silent", "state"),
    [
        (9, 73, 73, "disabled"),
        (8, 73, 73, "failing"),
        (9, 23, 73, "failing"),
        (9, 73, 71, "failing"),
    ],
)
def test_it_is_given_up_after_days_many_deliveries_and_a_whole_day(
    acme: Workspace, hook: Receiver, failures: int, since: float, silent: float, state: str
) -> None:
    """W-44."""
    one = failing(acme, endpoint(acme, hook), hook)
    Endpoint.objects.filter(pk=one.pk).update(failures=failures)
    ago(one, first_failed_at=since, created_at=silent)
    tell(acme)
    probe()
    attempts(deliveries()[-1])
    one.refresh_from_db()
    assert one.state == state
    severities = {"disabled": "error", "failing": "warning"}
    assert alert().severity == severities[state]
    assert Alert.objects.count() == 1


@both
def test_one_success_in_between_resets_all_that_was_counted(
    acme: Workspace, hook: Receiver
) -> None:
    """W-45."""
    one = endpoint(acme, hook)
    tell(acme)
    attempts(deliveries()[0])
    failing(acme, one, hook)
    Endpoint.objects.filter(pk=one.pk).update(failures=30)
    ago(one, first_failed_at=100, created_at=200)
    tell(acme)
    probe()
    attempts(deliveries()[-1])
    one.refresh_from_db()
    assert one.state == "failing", "it took a message within three days"
    hook.answers(200)
    tell(acme)
    probe()
    attempts(deliveries()[-1])
    one.refresh_from_db()
    assert (one.state, one.failures, one.first_failed_at) == ("active", 0, None)


@both
def test_what_flaps_is_never_given_up(acme: Workspace, hook: Receiver) -> None:
    """W-47."""
    one = endpoint(acme, hook)
    for _ in range(3):
        failing(acme, one, hook)
        hook.answers(200)
        tell(acme)
        probe()
        attempts(deliveries()[-1])
        one.refresh_from_db()
        assert one.state == "active"
    assert list(Alert.objects.values_list("state", "count")) == [("resolved", 1)] * 3


@both
def test_its_own_alert_is_told_to_others_alone(acme: Workspace, hook: Receiver) -> None:
    """W-48."""
    one = endpoint(acme, hook, events=[TOLD, "alert.opened"])
    other = endpoint(acme, hook, events=["alert.opened"])
    failing(acme, one, hook)
    told = WebhookDelivery.objects.filter(message__type="alert.opened")
    assert [each.endpoint_id for each in told] == [other.pk]


@both
def test_what_becomes_of_a_delivery_is_told_by_none(acme: Workspace, hook: Receiver) -> None:
    one = endpoint(acme, hook, events=["*", "job.succeeded"])
    tell(acme)
    hook.answers(200)
    attempts(deliveries()[0])
    hook.answers(400)
    tell(acme)
    attempts(deliveries()[1])
    types = WebhookDelivery.objects.filter(endpoint=one).values_list("message__type", flat=True)
    assert set(types) == {TOLD}


@both
def test_disabled_means_skipped_and_nothing_sent(acme: Workspace, hook: Receiver) -> None:
    """W-49, first half."""
    one = endpoint(acme, hook)
    endpoints.disable(one.pk, actor=SYSTEM)
    tell(acme)
    (mine,) = deliveries()
    assert (mine.status, mine.job_id, Job.objects.count()) == ("skipped", None, 0)


@both
def test_enabling_waits_a_minute_and_begins_with_a_probe(acme: Workspace, hook: Receiver) -> None:
    """W-46."""
    one = endpoint(acme, hook)
    endpoints.disable(one.pk, actor=SYSTEM)
    with pytest.raises(EnabledTooSoon) as refused:
        endpoints.enable(one.pk, actor=SYSTEM)
    assert refused.value.retry_after == 60
    ago(one, state_since=1)
    assert endpoints.enable(one.pk, actor=SYSTEM).state == "failing"
    tell(acme)
    tell(acme)
    first, second = deliveries()
    attempt(first)
    assert hook.got == []
    probe()
    attempt(first)
    attempt(second)
    assert len(hook.got) == 2
    one.refresh_from_db()
    assert one.state == "active"
    deeds = AuditEvent.objects.filter(action__startswith="webhook.").order_by("pk")
    assert list(deeds.values_list("action", "result")) == [
        ("webhook.create", "done"),
        ("webhook.disable", "done"),
        ("webhook.enable", "webhook_enabled_too_soon"),
        ("webhook.enable", "done"),
    ]


@both
def test_disabling_by_hand_ends_the_alert(acme: Workspace, hook: Receiver) -> None:
    one = failing(acme, endpoint(acme, hook), hook)
    endpoints.disable(one.pk, actor=SYSTEM)
    assert Alert.objects.get().state == "resolved"


@both
def test_an_event_that_comes_late_opens_nothing(acme: Workspace, hook: Receiver) -> None:
    one = failing(acme, endpoint(acme, hook), hook)
    hook.answers(200)
    tell(acme)
    probe()
    attempts(deliveries()[-1])
    before = Alert.objects.count()
    for event in Event.objects.filter(subject=str(one.pk)).order_by("pk"):
        deliver_now(event)
    assert Alert.objects.count() == before
    assert Alert.objects.get().state == "resolved"


@both
def test_a_closed_workspace_sends_no_more(acme: Workspace, hook: Receiver) -> None:
    one = endpoint(acme, hook)
    tell(acme)
    closing.close(acme.pk, actor=SYSTEM, reason="the contract has ended")
    one.refresh_from_db()
    (mine,) = deliveries()
    assert (one.state, one.reason, mine.status) == ("disabled", "workspace_closed", "cancelled")
    assert hook.got == []


@both
def test_who_answers_slowly_waits_among_the_slow_with_all_its_messages(
    acme: Workspace, hook: Receiver
) -> None:
    one = known(endpoint(acme, hook))
    tell(acme)
    tell(acme)
    first, second = deliveries()
    assert {job_of(first).queue, job_of(second).queue} == {"webhooks"}
    hook.answers(Says(200, seconds=2.1))
    attempt(first)
    one.refresh_from_db()
    assert (one.lane, job_of(second).queue) == ("webhooks_slow", "webhooks_slow")
    hook.answers(200)
    attempt(second)
    tell(acme)
    one.refresh_from_db()
    assert (one.lane, job_of(deliveries()[-1]).queue) == ("webhooks", "webhooks")


@both
def test_a_new_one_begins_among_the_slow(acme: Workspace, hook: Receiver) -> None:
    endpoint(acme, hook)
    tell(acme)
    assert job_of(deliveries()[0]).queue == "webhooks_slow"


@both
def test_a_test_that_is_answered_quickly_takes_it_out_of_there_before_its_first_event(
    acme: Workspace, hook: Receiver
) -> None:
    one = endpoint(acme, hook)
    hook.answers(500)
    attempt(again.send_test(one.pk, actor=SYSTEM))
    tell(acme)
    hook.answers(200)
    attempt(again.send_test(one.pk, actor=SYSTEM))
    one.refresh_from_db()
    (waits,) = [each for each in deliveries() if each.status == "open"]
    assert (one.lane, job_of(waits).queue) == ("webhooks", "webhooks")


@both
def test_a_test_that_is_answered_slowly_says_nothing(acme: Workspace, hook: Receiver) -> None:
    one = known(endpoint(acme, hook))
    hook.answers(Says(200, seconds=2.1))
    attempt(again.send_test(one.pk, actor=SYSTEM))
    one.refresh_from_db()
    assert one.lane == "webhooks"


def test_four_at_once_and_no_more(acme: Workspace, hook: Receiver) -> None:
    endpoint(acme, hook)
    for _ in range(9):
        tell(acme)
    assert sweep().published == 4


@both
def test_a_death_of_waiting_says_nothing_about_the_endpoint(
    acme: Workspace, hook: Receiver
) -> None:
    one = endpoint(acme, hook)
    tell(acme)
    Job.objects.update(deadline_at=Now() - timedelta(seconds=1))
    sweep()
    one.refresh_from_db()
    assert (deliveries()[0].status, one.state, one.failures) == ("dead", "active", 0)


@both
def test_what_is_too_much_is_skipped_and_can_be_recovered(
    acme: Workspace, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "WAITING_LIMIT", 3)
    endpoint(acme, hook)
    other = endpoint(acme, hook, events=["job.cancelled"])
    for _ in range(5):
        tell(acme)
    tell(acme, "job.cancelled")
    assert [one.status for one in deliveries()] == ["open"] * 3 + ["skipped"] * 2 + ["open"]
    assert deliveries()[-1].endpoint_id == other.pk
    attempts(deliveries()[0])
    tell(acme)
    assert deliveries()[-1].status == "open"


@both
def test_that_messages_are_skipped_is_said_once_and_taken_back_when_few_wait(
    acme: Workspace, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "WAITING_LIMIT", 4)
    one = endpoint(acme, hook, events=[TOLD, "alert.opened"])
    other = endpoint(acme, hook, events=["alert.opened"])
    for _ in range(4):
        tell(acme)
    assert not Alert.objects.exists(), "none is skipped yet"
    for _ in range(3):
        tell(acme)
    assert events_of(one) == ["webhook.endpoint_full"], "once within the hour"
    assert (alert().severity, alert().count) == ("error", 1)
    assert "new messages are skipped" in alert().title
    assert "hunter2" not in f"{alert().title}{alert().summary}{alert().trace}"
    told = WebhookDelivery.objects.filter(message__type="alert.opened")
    assert [each.endpoint_id for each in told] == [other.pk], "of itself it is told nothing"

    ago(one, full_said_at=2)
    tell(acme)
    assert (alert().count, events_of(one)) == (2, ["webhook.endpoint_full"] * 2)
    hour_passes()
    assert alert().count == 2, "as many wait as before"
    mine = [each for each in deliveries() if each.endpoint_id == one.pk]
    for each in mine[:3]:
        attempts(each)
    hour_passes()
    assert events_of(one)[-1] == "webhook.endpoint_drained"
    assert Alert.objects.get(rule="webhook_endpoint").state == "resolved"
    hour_passes()
    assert events_of(one).count("webhook.endpoint_drained") == 1


@both
def test_a_disabled_endpoint_skips_without_an_alarm(
    acme: Workspace, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "WAITING_LIMIT", 1)
    one = endpoint(acme, hook)
    tell(acme)
    endpoints.disable(one.pk, actor=SYSTEM)
    tell(acme)
    assert (deliveries()[-1].status, Alert.objects.exists()) == ("skipped", False)


@both
def test_telling_many_costs_as_many_statements_as_telling_one(
    acme: Workspace, hook: Receiver
) -> None:
    """It is done while a job's row is locked."""
    endpoint(acme, hook)
    with CaptureQueriesContext(connection) as one:
        tell(acme)
    for _ in range(19):
        endpoint(acme, hook)
    with CaptureQueriesContext(connection) as many:
        tell(acme)
    assert len(deliveries()) == 21
    assert connection.vendor != "postgresql" or len(many) == len(one)
