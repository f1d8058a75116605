"""A gate opens while upkeep parks what is behind it: nothing stays parked behind no gate."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import transaction
from django.db.models.functions import Now

from jobs import gates, moves
from jobs.models import Gate, Job
from tests.drills.kinds import by_account
from tests.integration.kernel.scene import new_workspace
from tests.integration.kernel.sessions import at_once, held_elsewhere
from tests.integration.meanwhile import meanwhile
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True)]
NAME = "account:7"


@pytest.fixture
def acme() -> Workspace:
    return new_workspace()


@pytest.fixture
def due(acme: Workspace, tmp_path: Path) -> Job:
    """A job that is to be published now, behind a gate that opens by a deed alone."""
    gates.close(acme.pk, NAME, reason="it does not answer", probe_every=60)
    made = by_account.s(ledger=str(tmp_path / "ledger"), account="7")
    job = made.enqueue(workspace=acme, key="k")
    Job.objects.update(wake_at=Now())
    return job


def park() -> None:
    moves.park_behind_gates(5.0)


def is_due(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk, wake_at__lte=Now(), run_at__lte=Now()).exists()


def test_what_is_parked_while_its_gate_is_being_opened_is_not_forgotten(
    acme: Workspace, due: Job
) -> None:
    """It was parked for ten years behind a gate that was gone: who opened it could not see it."""
    with transaction.atomic():
        assert gates.open_again(acme.pk, NAME) is True
        at_once(park)
    assert not Gate.objects.exists()
    assert is_due(due)


def test_who_opens_a_gate_waits_for_who_parks_behind_it(acme: Workspace, due: Job) -> None:
    with meanwhile(lambda: gates.open_again(acme.pk, NAME)):
        park()
    assert not Gate.objects.exists()
    assert is_due(due)


def test_parking_waits_for_nobody(acme: Workspace, due: Job) -> None:
    """Who holds a job may be about to open its gate: each would wait for the other."""
    with held_elsewhere(due):
        park()
        assert is_due(due)
    park()
    assert not is_due(due)


def test_a_gate_that_somebody_holds_parks_nothing_this_time(acme: Workspace, due: Job) -> None:
    with transaction.atomic():
        Gate.objects.select_for_update().get()
        at_once(park)
        assert is_due(due)
    park()
    assert not is_due(due)
