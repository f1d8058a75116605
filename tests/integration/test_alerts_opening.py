"""A dead letter opens one alert per cause, with its trace, and is counted once."""

from __future__ import annotations

import pydantic
import pytest
from django.db import IntegrityError, transaction

from alerts.models import Alert, AlertMember
from jobs import registry
from jobs.events import deliver_now
from jobs.models import Event
from jobs.states import Cause, State
from tests.integration.dead_letters import KIND, dies, ends, queued_job
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


def register_kind(monkeypatch: pytest.MonkeyPatch, *, alert: str | None, runbook: str) -> None:
    spec = registry.KindSpec(
        name=KIND,
        handler=register_kind,
        steps=(),
        params=pydantic.BaseModel,
        alert=alert,
        runbook=runbook,
    )
    monkeypatch.setitem(registry.KINDS, KIND, spec)


def deliver_again(event: Event) -> None:
    """Deliver an event once more, as the sweeper does; every receiver must return."""
    with transaction.atomic():
        assert deliver_now(Event.objects.get(pk=event.pk))


def test_a_dead_letter_opens_an_alert_with_its_trace(acme: Workspace) -> None:
    job = dies(queued_job(acme))
    alert = Alert.objects.get()
    assert (alert.workspace, alert.rule, alert.state, alert.count) == (
        acme,
        "dead_letter",
        "open",
        1,
    )
    assert (alert.severity, alert.title) == (
        "error",
        f"{KIND} used up its retries at step 'register': Down",
    )
    assert alert.trace == {
        "job_id": str(job.pk),
        "kind": KIND,
        "key": "order-1",
        "step": "register",
        "attempt": 1,
        "error_class": "registry.Down",
        "message": "registry answered 503",
        "request_id": "req-order-1",
        "traceparent": "00-trace",
    }
    assert str(alert) == f"error: {alert.title}"
    assert str(AlertMember.objects.get()) == f"job {job.pk}: open"


def test_opening_is_told_once_to_whoever_listens(acme: Workspace) -> None:
    dies(queued_job(acme, "order-1"))
    dies(queued_job(acme, "order-2"))
    event = Event.objects.get(type="alert.opened")
    alert = Alert.objects.get()
    assert (event.workspace_id, event.subject) == (acme.pk, str(alert.pk))
    assert event.data["title"] == alert.title
    assert event.data["severity"] == "error"


def test_an_uncertain_job_is_critical(acme: Workspace) -> None:
    dies(queued_job(acme), Cause.UNCERTAIN)
    alert = Alert.objects.get()
    assert (alert.severity, alert.title) == (
        "critical",
        f"{KIND} may or may not have carried out step 'register'",
    )


def test_many_dead_letters_of_one_cause_share_one_alert_that_shows_the_newest(
    acme: Workspace,
) -> None:
    jobs = [
        dies(queued_job(acme, f"order-{n}"), message=f"registry answered 503 to request {n}")
        for n in range(3)
    ]
    alert = Alert.objects.get()
    assert alert.count == 3
    assert set(alert.members.values_list("job_id", flat=True)) == {job.pk for job in jobs}
    assert alert.trace["job_id"] == str(jobs[-1].pk)


def test_other_causes_and_other_workspaces_get_their_own_alert(acme: Workspace) -> None:
    globex = Workspace.objects.create(slug="globex", name="Globex")
    dies(queued_job(acme, "order-1"))
    dies(queued_job(globex, "order-1"))
    dies(queued_job(acme, "order-2"), step="apply")
    dies(queued_job(acme, "order-3"), error="registry.Forbidden")
    dies(queued_job(acme, "order-4"), Cause.TERMINAL)
    assert list(Alert.objects.order_by("pk").values_list("workspace__slug", "count")) == [
        ("acme", 1),
        ("globex", 1),
        ("acme", 1),
        ("acme", 1),
        ("acme", 1),
    ]


def test_the_same_event_twice_changes_nothing(acme: Workspace) -> None:
    dies(queued_job(acme))
    before = Alert.objects.values().get()
    deliver_again(Event.objects.get(type="job.dead"))
    assert Alert.objects.values().get() == before
    assert AlertMember.objects.count() == 1
    assert Event.objects.filter(type="alert.opened").count() == 1


def test_a_death_told_again_after_its_alert_was_resolved_changes_nothing(acme: Workspace) -> None:
    job = dies(queued_job(acme))
    ends(queued_job(acme, retry_of=job), State.SUCCEEDED)
    before = Alert.objects.values().get()
    deliver_again(Event.objects.get(type="job.dead"))
    assert Alert.objects.values().get() == before


def test_a_kind_without_alerts_opens_none(acme: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    register_kind(monkeypatch, alert=None, runbook="")
    dies(queued_job(acme))
    assert not Alert.objects.exists()


def test_the_alert_carries_the_runbook_of_the_kind(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_kind(monkeypatch, alert="dead_letter", runbook="https://runbooks.example/ship")
    dies(queued_job(acme))
    assert Alert.objects.get().runbook == "https://runbooks.example/ship"


def test_a_retry_that_dies_of_the_same_cause_goes_back_into_the_same_alert(
    acme: Workspace,
) -> None:
    first = dies(queued_job(acme))
    second = dies(queued_job(acme, retry_of=first))
    alert = Alert.objects.get()
    assert (alert.state, alert.count) == ("open", 2)
    assert alert.trace["job_id"] == str(second.pk)
    assert Event.objects.filter(type="alert.opened").count() == 1


def test_a_retry_that_dies_of_another_cause_moves_to_the_alert_of_that_cause(
    acme: Workspace,
) -> None:
    first = dies(queued_job(acme))
    dies(queued_job(acme, retry_of=first), Cause.TERMINAL, error="registry.Forbidden")
    old, new = Alert.objects.order_by("pk")
    assert (old.state, new.state) == ("resolved", "open")
    assert old.resolution == (
        "The last affected job died again of another cause, which has its own alert."
    )


def test_a_chain_that_moves_away_leaves_the_others_in_the_old_alert(acme: Workspace) -> None:
    first = dies(queued_job(acme, "order-1"))
    dies(queued_job(acme, "order-2"))
    dies(queued_job(acme, "order-1", retry_of=first), Cause.UNCERTAIN)
    old, new = Alert.objects.order_by("pk")
    assert (old.state, new.state) == ("open", "open")
    assert list(old.members.order_by("pk").values_list("ending", flat=True)) == ["moved", ""]


def test_a_cause_that_comes_back_opens_a_new_alert(acme: Workspace) -> None:
    job = dies(queued_job(acme))
    ends(queued_job(acme, retry_of=job), State.SUCCEEDED)
    dies(queued_job(acme, "order-2"))
    assert list(Alert.objects.order_by("pk").values_list("state", "count")) == [
        ("resolved", 1),
        ("open", 1),
    ]


def test_the_database_holds_one_open_alert_per_cause(acme: Workspace) -> None:
    dies(queued_job(acme))
    alert = Alert.objects.get()
    alert.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        alert.save(force_insert=True)
