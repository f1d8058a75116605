"""An order and the job that charges it stand or fall together."""

from __future__ import annotations

import pytest
from django.db import transaction

from examples.payments.control import ProviderControl
from examples.payments.models import Order
from examples.payments.orders import place
from jobs.errors import KeyConflict
from jobs.models import Job
from tests.integration.payments.running import finished
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

pytestmark = pytest.mark.sqlite


def placed(workspace: Workspace, cents: int = 4200) -> Order:
    return place(workspace, reference="o-42", cents=cents, actor=SYSTEM)


def test_an_order_knows_the_job_that_charges_it(
    workspace: Workspace, control: ProviderControl
) -> None:
    order = placed(workspace)

    job = finished(Job.objects.get(pk=order.job_id))

    assert job.state == "succeeded"
    assert control.effects()["charge"] == 1


def test_an_order_placed_twice_is_one_order_and_one_job(workspace: Workspace) -> None:
    first, second = placed(workspace), placed(workspace)

    assert first == second
    assert first.job_id == second.job_id == Job.objects.get().pk


def test_an_order_placed_again_for_another_amount_is_refused(workspace: Workspace) -> None:
    placed(workspace)

    with pytest.raises(KeyConflict):
        placed(workspace, cents=1)

    assert Order.objects.get().cents == 4200


def test_an_order_that_is_rolled_back_leaves_no_job(workspace: Workspace) -> None:
    with transaction.atomic():
        placed(workspace)
        transaction.set_rollback(True)

    assert (Order.objects.count(), Job.objects.count()) == (0, 0)
