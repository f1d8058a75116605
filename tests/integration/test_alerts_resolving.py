"""An alert ends with the last chain in it, and goes by the rows, whatever order events come in."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.db.models.functions import Now

from alerts.models import Alert, AlertMember
from jobs import ending
from jobs.events import deliver_now, emit, wanted
from jobs.models import Event, Job
from jobs.states import State
from tests.integration.dead_letters import dies, ends, queued_job
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


def resolves(job: Job) -> Job:
    """Resolve a dead letter, and say so as the kernel does."""
    with transaction.atomic():
        Job.objects.filter(pk=job.pk).update(resolved_at=Now(), resolution="fixed elsewhere")
        emit("job.resolved", job.workspace_id, job.pk, ending.told_of(job))
    job.refresh_from_db()
    return job


def test_an_alert_is_resolved_when_the_retry_succeeds(acme: Workspace) -> None:
    job = dies(queued_job(acme))
    retry = queued_job(acme, retry_of=job)
    assert Alert.objects.get().state == "open"
    ends(retry, State.SUCCEEDED)
    alert = Alert.objects.get()
    assert alert.state == "resolved"
    assert alert.resolved_at is not None
    assert alert.resolution == "The last affected job succeeded on retry."
    assert AlertMember.objects.get().ending == "succeeded"
    event = Event.objects.get(type="alert.resolved")
    assert (event.subject, event.data["resolution"]) == (str(alert.pk), alert.resolution)


def test_an_alert_is_resolved_when_the_dead_letter_is(acme: Workspace) -> None:
    resolves(dies(queued_job(acme)))
    alert = Alert.objects.get()
    assert (alert.state, alert.resolution) == (
        "resolved",
        "The last affected job was resolved by an operator.",
    )


def test_an_alert_is_resolved_when_the_retry_is_cancelled(acme: Workspace) -> None:
    """Else nothing could ever end it: a cancelled job is no dead letter that one can resolve."""
    job = dies(queued_job(acme))
    ends(queued_job(acme, retry_of=job), State.CANCELLED)
    alert = Alert.objects.get()
    assert (alert.state, alert.resolution) == (
        "resolved",
        "The last affected job was cancelled by an operator.",
    )


def test_every_dead_letter_of_the_chain_ends_with_it(acme: Workspace) -> None:
    first = dies(queued_job(acme))
    second = dies(queued_job(acme, retry_of=first))
    ends(queued_job(acme, retry_of=second), State.SUCCEEDED)
    assert Alert.objects.get().state == "resolved"
    assert set(AlertMember.objects.values_list("ending", flat=True)) == {"succeeded"}


def test_an_alert_stays_open_until_its_last_chain_has_ended(acme: Workspace) -> None:
    first = dies(queued_job(acme, "order-1"))
    second = dies(queued_job(acme, "order-2"))
    ends(queued_job(acme, "order-1", retry_of=first), State.SUCCEEDED)
    assert Alert.objects.get().state == "open"
    assert not Event.objects.filter(type="alert.resolved").exists()
    resolves(second)
    assert Alert.objects.get().state == "resolved"
    assert Event.objects.filter(type="alert.resolved").count() == 1


def test_another_workspaces_alert_of_the_same_cause_stays_open(acme: Workspace) -> None:
    globex = Workspace.objects.create(slug="globex", name="Globex")
    job = dies(queued_job(acme))
    dies(queued_job(globex))
    ends(queued_job(acme, retry_of=job), State.SUCCEEDED)
    states = dict(Alert.objects.values_list("workspace__slug", "state"))
    assert states == {"acme": "resolved", "globex": "open"}


def test_a_success_with_no_dead_letter_behind_it_is_not_even_written(acme: Workspace) -> None:
    assert not wanted("job.succeeded", acme.pk)
    ends(queued_job(acme), State.SUCCEEDED)
    assert not Event.objects.exists()


def test_an_ending_told_twice_changes_nothing(acme: Workspace) -> None:
    job = dies(queued_job(acme))
    ends(queued_job(acme, retry_of=job), State.SUCCEEDED)
    before = Alert.objects.values().get()
    with transaction.atomic():
        assert deliver_now(Event.objects.get(type="job.succeeded"))
    assert Alert.objects.values().get() == before
    assert Event.objects.filter(type="alert.resolved").count() == 1


# A receiver that failed at first hears of a death from the sweeper, when time has moved on.


def dies_unheard(job: Job, monkeypatch: pytest.MonkeyPatch) -> Event:
    with monkeypatch.context() as patch:
        patch.setattr("jobs.events._receivers", [])
        dies(job)
    assert not Alert.objects.exists()
    return Event.objects.get(type="job.dead", subject=str(job.pk))


def hear(event: Event) -> None:
    with transaction.atomic():
        assert deliver_now(event)


def test_a_late_death_opens_the_alert_while_the_retry_runs(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queued_job(acme)
    death = dies_unheard(job, monkeypatch)
    retry = queued_job(acme, retry_of=job)
    hear(death)
    assert Alert.objects.get().state == "open"
    ends(retry, State.SUCCEEDED)
    assert Alert.objects.get().state == "resolved"


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELLED])
def test_a_late_death_opens_nothing_once_the_chain_has_ended(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch, state: State
) -> None:
    job = queued_job(acme)
    death = dies_unheard(job, monkeypatch)
    ends(queued_job(acme, retry_of=job), state)
    hear(death)
    assert not Alert.objects.exists()


def test_a_late_death_opens_nothing_once_it_is_resolved(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queued_job(acme)
    death = dies_unheard(job, monkeypatch)
    resolves(job)
    hear(death)
    assert not Alert.objects.exists()


def test_a_late_death_does_not_pull_its_chain_back_from_a_later_cause(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queued_job(acme)
    death = dies_unheard(job, monkeypatch)
    dies(queued_job(acme, retry_of=job), step="apply")
    hear(death)
    alert = Alert.objects.get()
    assert "'apply'" in alert.title
    assert (alert.state, alert.count) == ("open", 1)


def test_a_late_ending_does_not_end_what_died_since(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = dies(queued_job(acme))
    with monkeypatch.context() as patch:
        patch.setattr("jobs.events._receivers", [])
        cancelled = ends(queued_job(acme, retry_of=first), State.CANCELLED)
    dies(queued_job(acme, retry_of=cancelled))
    hear(Event.objects.get(type="job.cancelled"))
    assert Alert.objects.get().state == "open"


def test_events_of_a_chain_whose_retention_has_ended_change_nothing(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queued_job(acme)
    death = dies_unheard(job, monkeypatch)
    Job.objects.filter(pk=job.pk).delete()
    hear(death)
    with transaction.atomic():
        emit("job.resolved", acme, job.pk, {})
    assert not Alert.objects.exists()
    assert not Event.objects.exclude(error="").exists()
