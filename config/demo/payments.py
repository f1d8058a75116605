"""The story without Terraform: two orders are charged while no receipt can be sent."""

from __future__ import annotations

from config import services
from examples.payments import ledger
from examples.payments.control import ProviderControl
from examples.payments.models import Booking
from examples.payments.orders import place
from jobs.models import Job
from workspaces.actors import Actor
from workspaces.models import Workspace

CENTS = 4200


class Payments:
    """Orders, each a hold, a charge, a booking and a receipt."""

    broken = "The payment provider answers 503 when it is asked to send a receipt."
    mended = "receipts are sent again"

    def __init__(self, provider_url: str, *, why: str) -> None:
        self._provider = ProviderControl(provider_url)
        self.opening = (
            f"{why}, so the story is told with payments. Two orders are placed, and each is paid:"
            " reserve, charge, book, receipt."
        )

    def let_it_fail(self) -> None:
        self._provider.down("POST /receipts")

    def mend(self) -> None:
        self._provider.script("POST /receipts")

    def begin(self, workspace: Workspace, actor: Actor) -> Job:
        order = place(workspace, reference=f"{workspace.slug}-1", cents=CENTS, actor=actor)
        return Job.objects.get(pk=order.job_id)

    def effects(self, job: Job) -> dict[str, int]:
        every = ledger.read(services.ledger("payments"))
        order = job.params["order_id"]
        holds = [line["id"] for line in every if line["request"].get("order_id") == order]
        charges = [line["id"] for line in every if line["request"].get("hold") in holds]
        receipts = [line for line in every if line["request"].get("payment") in charges]
        booked = Booking.objects.filter(payment__in=charges).count()
        counts = {"hold": holds, "charge": charges, "receipt": receipts}
        return {**{name: len(found) for name, found in counts.items()}, "booking": booked}

    def ending(self, job: Job) -> str:
        return f"order {job.params['order_id']} is paid"
