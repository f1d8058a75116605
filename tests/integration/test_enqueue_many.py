"""Many intents at once: all or none, in order, each key one job."""

import uuid
from pathlib import Path
from threading import Barrier, Thread

import pytest
from django.db import connection, transaction

from jobs.enqueue import enqueue_many
from jobs.errors import KeyConflict, ParamsInvalid
from jobs.models import Job
from tests.drills.kinds import noop, repeatable
from workspaces.errors import WorkspaceClosed
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def workspace() -> Workspace:
    return Workspace.objects.create(slug=f"w{uuid.uuid4().hex[:8]}", name="W")


@pytest.mark.sqlite
def test_jobs_come_back_in_the_order_given(workspace: Workspace, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    keys = [f"k{n}" for n in (3, 1, 2)]
    jobs = enqueue_many([(repeatable.s(ledger=ledger), key) for key in keys], workspace=workspace)
    assert [job.key for job in jobs] == keys
    assert all(job.created for job in jobs)


@pytest.mark.sqlite
def test_a_known_key_answers_its_job(workspace: Workspace) -> None:
    first = noop.s().enqueue(workspace=workspace, key="b")
    jobs = enqueue_many([(noop.s(), key) for key in ("a", "b", "a")], workspace=workspace)
    assert jobs[1].pk == first.pk
    assert [job.created for job in jobs] == [True, False, False]
    assert jobs[2].pk == jobs[0].pk


@pytest.mark.sqlite
def test_one_refusal_enqueues_nothing(workspace: Workspace, tmp_path: Path) -> None:
    one, another = str(tmp_path / "one"), str(tmp_path / "another")
    repeatable.s(ledger=one).enqueue(workspace=workspace, key="taken")
    before = Job.objects.count()
    with pytest.raises(KeyConflict):
        enqueue_many(
            [(noop.s(), "new"), (repeatable.s(ledger=another), "taken")], workspace=workspace
        )
    with pytest.raises(ParamsInvalid):
        enqueue_many([(noop.s(), "new"), (repeatable.s(ledger=7), "bad")], workspace=workspace)  # type: ignore[arg-type]
    assert Job.objects.count() == before


@pytest.mark.sqlite
def test_a_closed_workspace_takes_none(workspace: Workspace) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(closed_at="2026-01-01T00:00:00Z")
    with pytest.raises(WorkspaceClosed):
        enqueue_many([(noop.s(), "a")], workspace=workspace)


def test_overlapping_calls_in_any_order_do_not_deadlock(workspace: Workspace) -> None:
    barrier = Barrier(4)
    faults: list[BaseException] = []

    def call(keys: list[str]) -> None:
        try:
            with transaction.atomic():
                barrier.wait(10)
                enqueue_many([(noop.s(), key) for key in keys], workspace=workspace)
        except BaseException as error:  # noqa: BLE001  the test looks at it
            faults.append(error)
        finally:
            connection.close()

    keys = [f"k{n}" for n in range(300)]
    orders = [keys, keys[::-1], keys[150:] + keys[:150], keys[::2] + keys[1::2]]
    threads = [Thread(target=call, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not faults
    assert Job.objects.filter(workspace=workspace).count() == len(keys)
