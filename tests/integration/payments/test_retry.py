"""What an operator's retry of a payment keeps, runs, asks and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.utils import timezone

from examples.payments import ledger
from examples.payments.control import ProviderControl
from examples.payments.faults import Fault
from examples.payments.kinds import refund
from examples.payments.models import Booking, Order
from examples.payments.orders import place
from jobs.errors import ReconcileRequired, Refused
from jobs.models import Job
from jobs.recovery.preflight import preflight
from jobs.recovery.reconcile import reconcile
from jobs.recovery.retry import retry
from tests.integration.payments.running import enqueued, finished, outcomes, output
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = pytest.mark.sqlite


def retried(job: Job, mode: str = "resume") -> Job:
    return retry(job.pk, mode=mode, actor=SYSTEM, reason="the provider is back")


def died_at_the_receipt(workspace: Workspace, control: ProviderControl) -> Job:
    control.down("POST /receipts")
    job = finished(enqueued(workspace))
    control.script("POST /receipts")
    assert (job.state, job.cause) == ("dead", "exhausted")
    return job


def words(job: Job, verb: str) -> dict[str, str]:
    return {step.name: step.word.value for step in preflight(job, verb, SYSTEM).steps}


def test_a_resume_keeps_every_finished_step(
    workspace: Workspace, control: ProviderControl, path: Path
) -> None:
    job = died_at_the_receipt(workspace, control)
    planned = words(job, "resume")

    successor = finished(retried(job))

    kept = successor.steps.filter(carried_from=job.pk).values_list("name", flat=True)
    assert planned == {"reserve": "kept", "charge": "kept", "book": "kept", "receipt": "runs"}
    assert successor.state == "succeeded"
    assert set(kept) == {"reserve", "charge", "book"}
    assert ledger.counts(path) == {"hold": 1, "charge": 1, "receipt": 1}
    assert Booking.objects.count() == 1


def test_a_resume_sends_the_same_key_as_the_attempts_before_it(
    workspace: Workspace, control: ProviderControl
) -> None:
    control.down("POST /holds")
    job = finished(enqueued(workspace))
    control.script("POST /holds")

    successor = finished(retried(job))

    keys = {call["key"] for call in control.requests("POST /holds")}
    assert successor.state == "succeeded"
    assert len(keys) == 1


def test_a_restart_is_a_new_intent_with_a_new_key(
    workspace: Workspace, control: ProviderControl, path: Path
) -> None:
    job = died_at_the_receipt(workspace, control)

    successor = finished(retried(job, "restart"))

    first, second = [line["key"] for line in ledger.read(path) if line["effect"] == "hold"]
    assert successor.state == "succeeded"
    assert first != second
    assert control.effects() == {"hold": 2, "charge": 2, "receipt": 1, "refund": 0}


def test_a_resume_in_doubt_asks_the_provider_before_it_charges(
    workspace: Workspace, control: ProviderControl
) -> None:
    control.times(lag=3600)
    control.script("POST /charges", Fault(status=502, effect=True))
    job = finished(enqueued(workspace))
    control.times(lag=0)
    planned = words(job, "resume")

    successor = finished(retried(job))

    assert job.cause == "uncertain"
    assert planned["charge"] == "asks first"
    assert successor.state == "succeeded"
    assert control.effects()["charge"] == 1


def test_a_restart_in_doubt_is_refused(workspace: Workspace, control: ProviderControl) -> None:
    control.times(lag=3600)
    control.script("POST /charges", Fault(status=502, effect=True))
    job = finished(enqueued(workspace))

    with pytest.raises(ReconcileRequired):
        retried(job, "restart")

    assert Job.objects.count() == 1


def test_a_refund_in_doubt_is_retried_only_after_somebody_looked(
    workspace: Workspace, control: ProviderControl
) -> None:
    paid = output(finished(enqueued(workspace)), "charge")["id"]
    control.script("POST /refunds", Fault(status=502, effect=True))
    job = finished(refund.s(payment=paid).enqueue(workspace=workspace, key="refund-1"))
    with pytest.raises(ReconcileRequired):
        retried(job)
    seen = {"id": "refund_seen_at_the_provider"}
    reconcile(
        job.pk, step="refund", outcome="happened", output=seen, actor=SYSTEM, reason="seen there"
    )

    successor = finished(retried(job))

    assert (successor.state, successor.result) == ("succeeded", seen)
    assert control.effects()["refund"] == 1


def test_the_order_follows_its_newest_job(workspace: Workspace, control: ProviderControl) -> None:
    control.script("POST /charges", Fault(status=402))
    order = place(workspace, reference="o-42", cents=4200, actor=SYSTEM)
    job = finished(Job.objects.get(pk=order.job_id))

    successor = retried(job)

    order.refresh_from_db()
    assert order.job_id == successor.pk
    assert finished(successor).state == "succeeded"


@pytest.mark.parametrize("mode", ["resume", "restart"])
def test_a_withdrawn_order_is_not_charged(
    workspace: Workspace, control: ProviderControl, mode: str
) -> None:
    control.script("POST /charges", Fault(status=402))
    order = place(workspace, reference="o-42", cents=4200, actor=SYSTEM)
    job = finished(Job.objects.get(pk=order.job_id))
    Order.objects.update(withdrawn_at=timezone.now())

    with pytest.raises(Refused) as caught:
        retried(job, mode)

    assert caught.value.code == "order_withdrawn"
    assert Job.objects.count() == 1
    assert control.effects()["charge"] == 0


def test_a_resume_has_its_own_attempts(workspace: Workspace, control: ProviderControl) -> None:
    job = died_at_the_receipt(workspace, control)
    control.script("POST /receipts", Fault(status=503, times=2))

    successor = finished(retried(job))

    assert [reason for _, reason in outcomes(successor)] == ["http_503", "http_503", ""]
