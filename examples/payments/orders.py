"""How an order comes to be paid: order and job commit together, or neither does."""

from __future__ import annotations

from django.db import transaction

from examples.payments.kinds import charge
from examples.payments.models import Order
from workspaces.actors import Actor
from workspaces.models import Workspace


@transaction.atomic
def place(workspace: Workspace, *, reference: str, cents: int, actor: Actor) -> Order:
    """Record an order and enqueue its charge. Placed twice, it is one order and one job.

    Raises ``KeyConflict`` where the order was placed before with another amount.
    """
    job = charge.s(order_id=reference, cents=cents).enqueue(
        workspace=workspace, key=f"order-{reference}", actor=actor
    )
    order, _ = Order.objects.get_or_create(
        workspace=workspace, reference=reference, defaults={"cents": cents, "job_id": job.id}
    )
    return order
