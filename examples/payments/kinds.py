"""Charging an order: reserve, charge, book, send a receipt; and paying a charge back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from examples.payments import client
from examples.payments.models import Booking, Order
from jobs.kinds import (
    CannotTell,
    DidNotHappen,
    Happened,
    Intent,
    Job,
    Refused,
    Run,
    Transient,
    job_kind,
    step,
)

# A request has left us that long after its intent was written, unless its process was paused.
SENT_WITHIN = timedelta(seconds=30)


@step.keyed("reserve", remembers=timedelta(hours=24))
def reserve(key: str, order_id: str) -> dict[str, Any]:
    """Hold the money. The provider answers the same for the same key."""
    return client.hold(key, order_id)


def find_charge(intent: Intent, hold: str, cents: int) -> Happened | DidNotHappen | CannotTell:
    """Ask the provider whether our charge happened.

    A charge that shows is proof at once. One that does not show is proof only when the search is
    complete past the moment our request left; until then this raises and is asked again later.
    *Hole:* both clocks are taken to agree.
    """
    asked_at = timezone.now()
    found = client.charges(hold)
    if len(found.charges) == 1 and found.charges[0]["cents"] == cents:
        return Happened(found.charges[0])
    if found.charges:
        return CannotTell(f"hold {hold} carries charges that are not this job's")
    sent_by = min(asked_at, intent.started_at + SENT_WITHIN)
    if found.complete_until < sent_by:
        behind = (sent_by - found.complete_until).total_seconds()
        raise Transient("the provider's search is not complete yet", delay=behind)
    return DidNotHappen()


@step.once("charge", reconcile=find_charge, boundary="provider")
def charge_card(hold: str, cents: int) -> dict[str, Any]:
    """Take the money. Every call takes it again."""
    return client.charge(hold, cents)


@step.local("book")
def book(payment: str) -> None:
    """Enter the payment into our books, in the transaction that marks this step done."""
    Booking.objects.create(payment=payment)


@step("receipt")
def receipt(payment: str) -> dict[str, Any]:
    """Send a receipt. A crash before its answer is stored sends a second one."""
    return client.send_receipt(payment)


@job_kind("payments.charge", steps=(reserve, charge_card, book, receipt), api=True)
def charge(run: Run, *, order_id: str, cents: int) -> dict[str, Any]:
    """Charge an order once."""
    hold = run(reserve, order_id)
    paid = run(charge_card, hold["id"], cents)
    run(book, paid["id"])
    return run(receipt, paid["id"])


@charge.before
def still_open(job: Job, verb: str) -> None:
    """Refuse to charge for an order that was withdrawn after its job died."""
    if verb not in ("resume", "restart"):
        return
    if Order.objects.filter(job_id=job.id, withdrawn_at__isnull=False).exists():
        raise Refused(
            "order_withdrawn",
            f"Nothing was retried: the order of job {job.id} was withdrawn."
            " Resolve the dead letter instead.",
        )


@charge.after
def repoint(job: Job, verb: str, successor: Job | None) -> None:
    """Let the order follow its newest job."""
    if successor is not None:
        Order.objects.filter(job_id=job.id).update(job_id=successor.id)


@step.once("refund", boundary="provider")
def pay_back(payment: str) -> dict[str, Any]:
    """Pay back. The provider cannot be asked, so a crash here ends the job uncertain."""
    return client.refund(payment)


@job_kind("payments.refund", steps=(pay_back,), risk=2)
def refund(run: Run, *, payment: str) -> dict[str, Any]:
    """Pay a charge back."""
    return run(pay_back, payment)
