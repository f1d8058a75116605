"""Closing a workspace: authorised, refused while an app objects, whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction

from tests.integration.meanwhile import meanwhile
from workspaces import audit, closing
from workspaces.actors import SYSTEM, Actor, as_actor
from workspaces.errors import NoSuchWorkspace, RecordKept
from workspaces.models import AuditEvent, Membership, Workspace
from workspaces.permissions import NotAllowed, Role

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def no_other_parts() -> Iterator[None]:
    """Only the parts of the test take part: what the apps do when closing is their own test."""
    kept = dict(closing._parts)
    closing._parts.clear()
    yield
    closing._parts.clear()
    closing._parts.update(kept)


@pytest.fixture
def acme(db: None) -> Workspace:
    return Workspace.objects.create(slug="acme", name="Acme")


def member(workspace: Workspace | None, role: Role) -> Actor:
    user = User.objects.create_user("ana", first_name="Ana")
    Membership.objects.create(user=user, workspace=workspace, role=role)
    return as_actor(user)


def test_closing_stops_every_part_and_leaves_a_trace(acme: Workspace) -> None:
    stopped = list[tuple[str, bool, str, str]]()

    def stop(workspace: Workspace, actor: Actor, reason: str) -> None:
        stopped.append((workspace.slug, workspace.closed_at is not None, actor.label, reason))

    closing.register("jobs", check=lambda workspace: None, close=stop)
    closing.register("webhooks", close=stop)
    ana = member(acme, Role.ADMIN)
    closed = closing.close(acme.pk, actor=ana, reason=" contract ended ", request_id="req-1")

    acme.refresh_from_db()
    assert closed.closed_at == acme.closed_at
    assert closed.closed_at is not None
    assert stopped == [("acme", True, "Ana", "contract ended")] * 2
    event = AuditEvent.objects.get()
    assert (event.action, event.actor, event.reason, event.request_id) == (
        "workspaces.close",
        ana.id,
        "contract ended",
        "req-1",
    )
    assert (event.object_type, event.object_id) == ("workspace", str(acme.pk))
    assert str(acme) == "Acme (closed)"


def test_closing_twice_changes_nothing(acme: Workspace) -> None:
    first = closing.close(acme.pk, actor=SYSTEM, reason="contract ended")
    calls = list[str]()
    closing.register("jobs", close=lambda workspace, actor, reason: calls.append("called"))
    second = closing.close(acme.pk, actor=SYSTEM, reason="again")
    assert second.closed_at == first.closed_at
    assert calls == []
    assert AuditEvent.objects.count() == 1


def test_every_objection_is_told_and_nothing_happens(acme: Workspace) -> None:
    calls = list[str]()
    closing.register("stacks", check=lambda workspace: "A run is applying; wait for it.")
    closing.register("quiet", check=lambda workspace: None)
    closing.register(
        "jobs",
        check=lambda workspace: f"A job of {workspace.slug} is uncertain; reconcile it.",
        close=lambda workspace, actor, reason: calls.append("called"),
    )
    with pytest.raises(closing.CloseRefused) as caught:
        closing.close(acme.pk, actor=SYSTEM, reason="contract ended")
    assert caught.value.code == "close_refused"
    assert caught.value.sentence == (
        "The workspace stays open. A run is applying; wait for it. "
        "A job of acme is uncertain; reconcile it."
    )
    acme.refresh_from_db()
    assert acme.closed_at is None
    assert calls == []
    assert not AuditEvent.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_part_that_fails_to_stop_undoes_the_closing() -> None:
    acme = Workspace.objects.create(slug="acme", name="Acme")

    def fail(workspace: Workspace, actor: Actor, reason: str) -> None:
        raise ZeroDivisionError

    closing.register("jobs", close=fail)
    with pytest.raises(ZeroDivisionError):
        closing.close(acme.pk, actor=SYSTEM, reason="contract ended")
    acme.refresh_from_db()
    assert acme.closed_at is None
    assert not AuditEvent.objects.exists()


def test_a_name_takes_part_once() -> None:
    closing.register("jobs")
    with pytest.raises(ValueError, match="'jobs' takes part"):
        closing.register("jobs")


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.LEAD])
def test_only_an_admin_closes(acme: Workspace, role: Role) -> None:
    with pytest.raises(NotAllowed) as caught:
        closing.close(acme.pk, actor=member(acme, role), reason="contract ended")
    assert caught.value.right == "workspaces.close"
    acme.refresh_from_db()
    assert acme.closed_at is None


def test_a_foreign_workspace_does_not_exist(acme: Workspace) -> None:
    mine = Workspace.objects.create(slug="mine", name="Mine")
    ana = member(mine, Role.ADMIN)
    for workspace_id in (acme.pk, 10**9):
        with pytest.raises(NoSuchWorkspace):
            closing.close(workspace_id, actor=ana, reason="contract ended")


def test_a_reason_is_asked_for(acme: Workspace) -> None:
    with pytest.raises(audit.ReasonRequired):
        closing.close(acme.pk, actor=SYSTEM, reason=" ")
    acme.refresh_from_db()
    assert acme.closed_at is None


def test_a_workspace_never_vanishes(acme: Workspace) -> None:
    with pytest.raises(RecordKept, match="closed, never deleted"):
        acme.delete()
    with pytest.raises(RecordKept):
        Workspace.objects.all().delete()
    with pytest.raises(RecordKept):
        Workspace.objects.filter(pk=acme.pk).delete()
    assert Workspace.objects.get() == acme


def test_a_closed_workspace_keeps_its_members_and_its_trail(acme: Workspace) -> None:
    ana = member(acme, Role.ADMIN)
    closing.close(acme.pk, actor=ana, reason="contract ended")
    assert acme.memberships.count() == 1
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM workspaces_workspace WHERE id = %s", [acme.pk])
        with pytest.raises(IntegrityError):
            connection.check_constraints()
        transaction.set_rollback(True)


@pytest.mark.django_db(transaction=True)
def test_work_committed_before_the_closing_looks_is_seen_by_its_checks() -> None:
    """The lock's promise: who holds the row while adding work is waited for, never missed."""
    acme = Workspace.objects.create(slug="acme", name="Acme")
    closing.register(
        "jobs",
        check=lambda workspace: (
            "It has new work." if AuditEvent.objects.filter(workspace=workspace) else None
        ),
    )

    def refuses() -> None:
        with pytest.raises(closing.CloseRefused, match="It has new work"):
            closing.close(acme.pk, actor=SYSTEM, reason="contract ended")

    with meanwhile(refuses):
        lock_as_a_writer_does(acme)
        audit.record(actor=SYSTEM, action="x", workspace=acme, object_type="x", object_id="1")
    acme.refresh_from_db()
    assert acme.closed_at is None


def lock_as_a_writer_does(workspace: Workspace) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM workspaces_workspace WHERE id = %s AND closed_at IS NULL FOR SHARE",
            [workspace.pk],
        )
        assert cursor.fetchone()
