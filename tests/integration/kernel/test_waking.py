"""Which jobs are taken to be published, which are left, and what waiting ones are said to wait for.

PostgreSQL only: inline mode has no messages.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Value
from django.db.models.functions import Now

from jobs import moves
from jobs.fence import Wake
from jobs.models import Gate, Job
from jobs.models.ids import uuid7
from jobs.statements import bound_waiting
from tests.drills.kinds import noop
from tests.integration.kernel.acting import about
from tests.integration.kernel.sessions import held_elsewhere
from tests.integration.kernel.standing import RUNNING, made, values_of
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
DUE: dict[str, Any] = {"wake_at": Now() - HOUR}
KIND = noop.name
GATE = "other"


def due(workspace: Workspace, key: str, **values: Any) -> Job:
    return made(workspace, key, **{**DUE, **values})


def taken(limit: int = 10, shared: tuple[str, ...] = ()) -> list[str]:
    """The keys of what is taken to be published."""
    return keys(moves.take_due(limit, shared))


def shares(share: int, limit: int = 10) -> list[str]:
    return keys(moves.take_shares(KIND, share, limit))


def gate_shares(share: int, limit: int = 10) -> list[str]:
    return keys(moves.take_gate_shares(KIND, share, limit))


def keys(found: list[Wake]) -> list[str]:
    """Each with its kind and the queue it goes to."""
    jobs = {job.pk: job for job in Job.objects.all()}
    for wake in found:
        assert (wake.kind, wake.queue) == (jobs[wake.job_id].kind, jobs[wake.job_id].queue)
    return sorted(jobs[wake.job_id].key for wake in found)


# --- what is due ---------------------------------------------------------------------------------


TAKES = [lambda: taken(limit=1), lambda: shares(2), lambda: gate_shares(2)]


@pytest.mark.parametrize("take", TAKES)
def test_what_is_queued_and_due_is_taken_once_for_each_wake(shop: Workspace, take: Any) -> None:
    """Room is for one; what is older and not queued takes none of it."""
    older = {"gate": GATE, "wake_at": Now() - 2 * HOUR}
    due(shop, "due", gate=GATE)
    due(shop, "ended", state="succeeded", finished_at=Now(), **older)
    due(shop, "running", **RUNNING, **older)
    made(shop, "not yet", wake_at=Now() + HOUR, gate=GATE)
    assert take() == ["due"]
    assert take() == []


@pytest.mark.parametrize("take", [taken, lambda: shares(9), lambda: gate_shares(9)])
def test_a_wake_that_nobody_answers_is_repeated_ever_later(shop: Workspace, take: Any) -> None:
    jobs = [due(shop, str(before), gate=GATE, publishes=before) for before in range(8)]
    assert take() == [job.key for job in jobs]
    waits = (30, 60, 120, 240, 480, 960, 1800, 1800)
    for job, wait in zip(jobs, waits, strict=True):
        now = values_of(job)
        assert now["publishes"] == job.publishes + 1
        assert about(wait, now["wake_at"] - job.created_at)


@pytest.fixture
def _no_index(db: None) -> None:
    """Whatever plan is chosen: no index gives an order that was not asked for."""
    with connection.cursor() as cursor:
        for scan in ("indexscan", "indexonlyscan", "bitmapscan"):
            cursor.execute(f"SET LOCAL enable_{scan} = off")


@pytest.mark.usefixtures("_no_index")
def test_the_longest_due_are_taken_first(shop: Workspace) -> None:
    for hours, key in ((1, "c"), (3, "a"), (2, "b")):
        due(shop, key, wake_at=Now() - hours * HOUR)
    assert taken(limit=2) == ["a", "b"]
    assert taken(limit=2) == ["c"]


def test_kinds_with_a_share_are_left_to_those_who_count(shop: Workspace) -> None:
    due(shop, "a")
    due(shop, "b", kind="drills.once")
    assert taken(shared=(KIND, "drills.other")) == ["b"]
    assert taken() == ["a"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("take", [taken, lambda: shares(9), lambda: gate_shares(9)])
def test_what_somebody_holds_is_left_and_not_waited_for(acme: Workspace, take: Any) -> None:
    job = due(acme, "held", gate=GATE)
    due(acme, "free", gate=GATE)
    with held_elsewhere(job), transaction.atomic():
        bound_waiting(2)
        assert take() == ["free"]
    assert take() == ["held"]


# --- shares --------------------------------------------------------------------------------------


@pytest.mark.parametrize("take", [shares, gate_shares])
@pytest.mark.parametrize(
    ("beside", "room"),
    [
        ({**DUE, "publishes": 1}, 2),  # its message was lost: due itself, and taken
        ({**RUNNING, **DUE}, 1),
        ({"publishes": 1, "wake_at": Now() + HOUR}, 1),  # published, and not claimed yet
        ({"publishes": 0, "wake_at": Now() + HOUR}, 2),  # waits for its moment
        ({**RUNNING, "kind": "drills.once"}, 2),
        ({"publishes": 1, "wake_at": Now() + HOUR, "kind": "drills.once"}, 2),
        ({"state": "succeeded", "finished_at": Now(), "publishes": 1, "wake_at": Now() + HOUR}, 2),
    ],
)
def test_a_share_is_what_is_under_way(
    shop: Workspace, take: Callable[[int], list[str]], *, beside: dict[str, Any], room: int
) -> None:
    made(shop, "beside", **beside, gate=GATE)
    for key in "abc":
        due(shop, key, wake_at=Now(), gate=GATE)
    assert len(take(2)) == room


@pytest.mark.usefixtures("_no_index")
def test_one_workspace_leaves_the_share_of_another_alone(shop: Workspace) -> None:
    another = Workspace.objects.create(slug="another", name="Another")
    made(another, "busy", **RUNNING)
    made(another, "published", publishes=1, wake_at=Now() + HOUR)
    for hours, key in ((1, "c"), (3, "a"), (2, "b")):
        due(shop, key, wake_at=Now() - hours * HOUR)
        due(another, f"another {key}", wake_at=Now() - hours * HOUR)
    assert shares(2) == ["a", "b"]
    assert shares(3) == ["another a", "c"]


def test_a_share_is_of_its_kind_and_a_pass_has_a_limit(shop: Workspace) -> None:
    due(shop, "of another kind", kind="drills.once")
    for key in "abc":
        due(shop, key)
    assert len(shares(9, limit=2)) == 2
    assert len(shares(9, limit=2)) == 1
    assert taken() == ["of another kind"]


@pytest.mark.parametrize("take", [shares, gate_shares])
def test_beyond_its_share_nothing_more_comes(
    shop: Workspace, take: Callable[[int], list[str]]
) -> None:
    for key in "ab":
        made(shop, f"busy {key}", **RUNNING, gate=GATE)
    due(shop, "c", gate=GATE)
    assert take(1) == []


@pytest.mark.usefixtures("_no_index")
def test_each_gate_of_each_workspace_has_its_share_oldest_first(shop: Workspace) -> None:
    another = Workspace.objects.create(slug="another", name="Another")
    made(another, "busy", **RUNNING, gate=GATE)
    made(another, "published", publishes=1, wake_at=Now() + HOUR, gate=GATE)
    for hours, key in ((1, "c"), (3, "a"), (2, "b")):
        for workspace, gate in ((shop, "post"), (shop, GATE), (another, GATE)):
            due(
                workspace, f"{workspace.slug} {gate} {key}", wake_at=Now() - hours * HOUR, gate=gate
            )
    assert gate_shares(1) == ["shop other a", "shop post a"]
    assert gate_shares(2) == ["shop other b", "shop post b"]
    assert gate_shares(3) == ["another other a", "shop other c", "shop post c"]


def test_gates_take_turns_where_a_pass_has_no_room_for_all(shop: Workspace) -> None:
    for hours, gate in ((4, "c"), (5, "b"), (6, "b"), (7, "a"), (8, "a"), (9, "a")):
        due(shop, f"{gate}{hours}", wake_at=Now() - hours * HOUR, gate=gate)
    assert gate_shares(9, limit=4) == ["a8", "a9", "b6", "c4"]
    assert gate_shares(9, limit=1) == ["a7"]


def test_a_gate_share_is_of_its_kind_and_of_what_stands_behind_a_gate(shop: Workspace) -> None:
    due(shop, "of another kind", kind="drills.once", gate=GATE)
    due(shop, "behind none")
    assert gate_shares(9) == []


# --- lanes ---------------------------------------------------------------------------------------


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("values", "changes"),
    [
        ({}, True),
        (RUNNING, True),
        ({"state": "succeeded", "finished_at": Now()}, False),
        ({"gate": "post"}, False),
        ({"gate": ""}, False),
    ],
)
def test_what_stands_behind_a_gate_and_has_not_ended_changes_its_lane(
    shop: Workspace, *, values: dict[str, Any], changes: bool
) -> None:
    job = made(shop, "a", **{**DUE, "gate": GATE, **values})
    other = made(Workspace.objects.create(slug="another", name="Another"), "a", gate=GATE)
    before, other_before = values_of(job), values_of(other)
    moves.change_lane(shop.pk, GATE, "slow")
    assert values_of(job) == {**before, "queue": "slow" if changes else before["queue"]}
    assert values_of(other) == other_before


@pytest.mark.sqlite
def test_no_gate_has_no_lane(shop: Workspace) -> None:
    before = values_of(job := made(shop, "a"))
    moves.change_lane(shop.pk, "", "slow")
    assert values_of(job) == before


# --- what cannot start ---------------------------------------------------------------------------


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("stood", "is_kept"),
    [
        ({"wait_reason": "unstartable", "wait_since": Now() - HOUR}, True),
        ({"wait_reason": "unstartable", "wait_since": None}, False),
        ({"wait_reason": "retry", "wait_since": Now() - HOUR}, False),
    ],
)
def test_the_first_who_could_not_start_it_starts_the_clock(
    shop: Workspace, *, stood: dict[str, Any], is_kept: bool
) -> None:
    job = due(shop, "a", publishes=4, **stood)
    moves.mark_unstartable(job.pk)
    now = values_of(job)
    assert (now["wait_reason"], now["publishes"]) == ("unstartable", 0)
    assert about(30, now["wake_at"] - job.created_at)
    assert (now["wait_since"] == job.wait_since) == is_kept
    assert is_kept or about(0, now["wait_since"] - job.created_at)


@pytest.mark.sqlite
def test_what_can_start_again_is_due_and_waits_for_nothing(shop: Workspace) -> None:
    job = due(shop, "a", wait_reason="unstartable", wait_since=Now() - HOUR)
    moves.mark_startable(job.pk)
    now = values_of(job)
    assert (now["wait_reason"], now["wait_since"]) == ("", None)
    assert about(0, now["wake_at"] - job.created_at)


@pytest.mark.sqlite
def test_only_that_mark_is_taken_away(shop: Workspace) -> None:
    job = due(shop, "a", wait_reason="retry", wait_since=Now() - HOUR)
    moves.mark_startable(job.pk)
    assert values_of(job)["wait_reason"] == "retry"


# --- behind a closed gate ------------------------------------------------------------------------

SPREAD = 60.0


def closed(workspace: Workspace | None, name: str = GATE, for_: timedelta = HOUR) -> Gate:
    gate = Gate.objects.create(workspace=workspace, name=name, closed_until=Now() + for_)
    gate.refresh_from_db()
    return gate


@pytest.mark.parametrize("whose", ["shop", "the platform"])
def test_what_is_due_behind_a_closed_gate_waits_until_it_opens(shop: Workspace, whose: str) -> None:
    gate = closed(shop if whose == "shop" else None)
    stood = {"publishes": 2, "wait_reason": "retry", "wait_since": Now() - HOUR}
    jobs = [due(shop, str(number), gate=GATE, **stood) for number in range(20)]
    moves.park_behind_gates(SPREAD)
    waits = []
    for job in jobs:
        now = values_of(job)
        assert (now["wait_reason"], now["publishes"]) == ("throttled", 0)
        assert about(0, now["wait_since"] - job.created_at)
        waits.append((now["wake_at"] - gate.closed_until).total_seconds())
    assert 0 <= min(waits) < max(waits) <= SPREAD
    assert max(waits) > 1, "so many that come at one moment would close it again"


@pytest.mark.parametrize(
    ("job", "gate"),
    [
        ({"gate": GATE, "wake_at": Now() + HOUR}, {}),
        ({"gate": "post"}, {}),
        ({"gate": ""}, {"name": ""}),
        ({"gate": GATE}, {"for_": -HOUR}),
        ({"gate": GATE, "state": "succeeded", "finished_at": Now()}, {}),
        ({"gate": GATE, **RUNNING}, {}),
    ],
)
def test_nothing_else_is_moved(shop: Workspace, job: dict[str, Any], gate: dict[str, Any]) -> None:
    closed(shop, **gate)
    closed(shop, "stamps")
    parked = due(shop, "b", gate="stamps")
    before = values_of(other := due(shop, "a", **job))
    moves.park_behind_gates(SPREAD)
    assert values_of(other) == before
    assert values_of(parked)["wait_reason"] == "throttled"


@pytest.mark.parametrize(
    ("whom", "attempt", "is_parked"),
    [("it", 5, False), ("it", 4, True), ("it", 6, True), ("another", 5, True)],
)
def test_only_the_attempt_that_a_gate_lets_through_stays_due(
    shop: Workspace, *, whom: str, attempt: int, is_parked: bool
) -> None:
    job = due(shop, "a", gate=GATE, attempt=4)
    probe = job.pk if whom == "it" else uuid7()
    gate = closed(shop)
    Gate.objects.filter(pk=gate.pk).update(probe_id=probe, probe_attempt=attempt)
    moves.park_behind_gates(SPREAD)
    assert (values_of(job)["wait_reason"] == "throttled") == is_parked


def test_the_gate_of_another_workspace_is_nobody_elses(shop: Workspace) -> None:
    closed(Workspace.objects.create(slug="another", name="Another"))
    before = values_of(job := due(shop, "a", gate=GATE))
    moves.park_behind_gates(SPREAD)
    assert values_of(job) == before


@pytest.mark.parametrize("since", [Now() - HOUR, Value(None)])
def test_a_gate_that_keeps_closing_does_not_hide_what_cannot_start(
    shop: Workspace, since: Any
) -> None:
    """Parked, it keeps its mark and its clock: an hour later it is buried, gate or no gate."""
    gate = closed(shop)
    job = due(shop, "a", gate=GATE, wait_reason="unstartable", wait_since=since)
    moves.park_behind_gates(SPREAD)
    now = values_of(job)
    assert now["wait_reason"] == "unstartable"
    assert now["wake_at"] >= gate.closed_until
    if job.wait_since:
        assert now["wait_since"] == job.wait_since
    else:
        assert about(0, now["wait_since"] - job.created_at)
