"""A database that answers, and takes no writes for a while: no disk, or locked against them.

PostgreSQL only. Nothing was done by what was refused, so an attempt waits for its writes in place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.db.utils import InternalError, OperationalError

from jobs import runner, statements
from jobs.models import Job
from jobs.testing import at_step, attempt
from tests.drills.kinds import once, repeatable
from tests.drills.ledger import effects
from tests.integration.kernel.acting import waiting
from tests.integration.kernel.sessions import at_once
from workspaces.models import Workspace
from workspaces.outages import is_lost_connection, is_outage

pytestmark = pytest.mark.django_db(transaction=True)

_TABLES = ("jobs_job", "jobs_step")
_FULL = (
    "CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END $$",
    *(
        f"CREATE CONSTRAINT TRIGGER full_disk AFTER INSERT OR UPDATE ON {table} DEFERRABLE"
        " INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION full_disk()"
        for table in _TABLES
    ),
)
_ROOM = tuple(f"DROP TRIGGER IF EXISTS full_disk ON {table}" for table in _TABLES)
_MINE = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I {}', current_database()); END $$"
_LOCKED = (
    _MINE.format("SET default_transaction_read_only = on"),
    "SET default_transaction_read_only = on",
)
_UNLOCKED = (
    "SET default_transaction_read_only = off",
    _MINE.format("RESET default_transaction_read_only"),
)
TROUBLE = {"no disk at the commit": _FULL, "read only": _LOCKED}


def done(statements: Sequence[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def over() -> None:
    done((*_UNLOCKED, *_ROOM))


@pytest.fixture(params=TROUBLE)
def trouble(request: pytest.FixtureRequest) -> Iterator[Callable[[object], None]]:
    """What begins the trouble; it is over when the test is."""

    def begin(_: object) -> None:
        done(TROUBLE[request.param])

    yield begin
    over()


@pytest.fixture
def _over_at_the_third_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for the database finds it well after a second pause."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            assert at_once(over) == [None]

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr(statements, "time", clock)


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None)
    monkeypatch.setattr(statements, "time", clock)


@pytest.mark.usefixtures("_over_at_the_third_try")
@pytest.mark.parametrize("name", ["charge", "second"])
@pytest.mark.parametrize("when", ["before", "started", "during", "after"])
def test_an_attempt_waits_for_its_writes(
    acme: Workspace, ledger: str, trouble: Callable[[object], None], name: str, when: Any
) -> None:
    job = waiting(once.s(ledger=ledger), acme)
    with at_step(name, when, trouble):
        attempt(job)
    assert (job.state, job.attempt, job.failures) == ("succeeded", 1, 0)
    assert effects(ledger) == {"charge": 1, "second": 1}


@pytest.mark.usefixtures("_hasty")
def test_a_claim_is_tried_again_by_its_envelope(
    acme: Workspace, ledger: str, trouble: Callable[[object], None]
) -> None:
    job = waiting(repeatable.s(ledger=ledger), acme)
    Job.objects.filter(pk=job.pk).update(run_at=Now())
    trouble(None)
    with pytest.raises(runner.ClaimUnavailable):
        runner.execute(job.kind, job.pk)
    over()
    assert runner.execute(job.kind, job.pk)
    assert effects(ledger) == {"first": 1, "second": 1}


@pytest.mark.usefixtures("_hasty")
def test_it_is_called_an_outage_and_no_lost_connection(
    acme: Workspace, trouble: Callable[[object], None]
) -> None:
    """The API answers it with 503; and surely nothing was done."""
    trouble(None)
    with pytest.raises((OperationalError, InternalError)) as refused:
        waiting(repeatable.s(ledger="x"), acme)
    assert (is_outage(refused.value), is_lost_connection(refused.value)) == (True, False)
