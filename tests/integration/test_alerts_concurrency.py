"""Alerts under real concurrent transactions on PostgreSQL.

Most hold one transaction open until the other is seen waiting for it.
"""

from __future__ import annotations

from threading import Barrier, Thread
from uuid import UUID

import pytest
from django.db import connection

from alerts.models import Alert, AlertMember
from jobs.events import deliver_now
from jobs.models import Event, Job
from jobs.states import Cause, State
from tests.integration.dead_letters import dies, ends, queued_job
from tests.integration.meanwhile import meanwhile
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)


def every_event_was_delivered() -> bool:
    return not Event.objects.filter(delivered_at=None).exists()


def states() -> list[tuple[str, int]]:
    return list(Alert.objects.order_by("pk").values_list("state", "count"))


def test_these_tests_run_on_postgresql() -> None:
    assert connection.vendor == "postgresql"


def test_two_jobs_of_one_cause_that_die_at_once_share_one_alert(acme: Workspace) -> None:
    first, second = queued_job(acme, "order-1"), queued_job(acme, "order-2")
    with meanwhile(lambda: dies(second)):
        dies(first)
    assert states() == [("open", 2)]
    assert Event.objects.filter(type="alert.opened").count() == 1
    assert every_event_was_delivered()


def test_a_death_that_meets_a_rolled_back_one_opens_the_alert_itself(acme: Workspace) -> None:
    first, second = queued_job(acme, "order-1"), queued_job(acme, "order-2")
    with meanwhile(lambda: dies(second), undone=True):
        dies(first)
    assert states() == [("open", 1)]
    assert AlertMember.objects.get().job_id == second.pk


def test_many_jobs_of_one_cause_that_die_at_once_are_all_counted_once(acme: Workspace) -> None:
    jobs = [queued_job(acme, f"order-{n}") for n in range(8)]
    start, faults = Barrier(len(jobs)), list[BaseException]()

    def die(job: Job) -> None:
        try:
            start.wait(10)
            dies(job)
        except BaseException as error:  # noqa: BLE001  handed to the test below
            faults.append(error)
        finally:
            connection.close()

    threads = [Thread(target=die, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert faults == []
    assert states() == [("open", 8)]
    assert AlertMember.objects.count() == 8
    assert every_event_was_delivered()


def test_a_death_while_the_alert_is_being_resolved_opens_a_new_one(acme: Workspace) -> None:
    retry = queued_job(acme, "order-1", retry_of=dies(queued_job(acme, "order-1")))
    other = queued_job(acme, "order-2")
    with meanwhile(lambda: dies(other)):
        ends(retry, State.SUCCEEDED)
    assert states() == [("resolved", 1), ("open", 1)]
    assert every_event_was_delivered()


def test_a_chain_that_ends_while_another_dies_leaves_the_alert_open(acme: Workspace) -> None:
    retry = queued_job(acme, "order-1", retry_of=dies(queued_job(acme, "order-1")))
    other = queued_job(acme, "order-2")
    with meanwhile(lambda: ends(retry, State.SUCCEEDED)):
        dies(other)
    assert states() == [("open", 2)]
    assert list(AlertMember.objects.order_by("pk").values_list("ending", flat=True)) == [
        "succeeded",
        "",
    ]
    assert every_event_was_delivered()


def test_the_last_two_chains_that_end_at_once_resolve_the_alert(acme: Workspace) -> None:
    retries = [
        queued_job(acme, key, retry_of=dies(queued_job(acme, key)))
        for key in ("order-1", "order-2")
    ]
    with meanwhile(lambda: ends(retries[1], State.SUCCEEDED)):
        ends(retries[0], State.SUCCEEDED)
    assert states() == [("resolved", 2)]
    assert Event.objects.filter(type="alert.resolved").count() == 1


def test_a_death_told_late_and_the_success_of_its_retry_cannot_pass_each_other(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queued_job(acme)
    with monkeypatch.context() as patch:
        patch.setattr("jobs.events._receivers", [])
        dies(job)
    retry = queued_job(acme, retry_of=job)
    with meanwhile(lambda: ends(retry, State.SUCCEEDED)):
        assert deliver_now(Event.objects.get(type="job.dead"))
    assert states() == [("resolved", 1)]


def test_two_chains_that_swap_their_causes_do_not_wait_for_each_other(acme: Workspace) -> None:
    """Each holds a place in the other's alert, so both lock both alerts."""
    exhausted = dies(queued_job(acme, "order-1"))
    uncertain = dies(queued_job(acme, "order-2"), Cause.UNCERTAIN)
    one = queued_job(acme, "order-1", retry_of=exhausted)
    two = queued_job(acme, "order-2", retry_of=uncertain)
    with meanwhile(lambda: dies(two)):
        dies(one, Cause.UNCERTAIN)
    assert members(Cause.EXHAUSTED) == [(exhausted.pk, "moved"), (two.pk, "")]
    assert members(Cause.UNCERTAIN) == [(uncertain.pk, "moved"), (one.pk, "")]
    assert every_event_was_delivered()


def members(cause: Cause) -> list[tuple[UUID, str]]:
    """The members of the alerts of one cause, oldest first."""
    rows = AlertMember.objects.filter(alert__cause_key__contains=f"/{cause}/").order_by("pk")
    return list(rows.values_list("job_id", "ending"))
