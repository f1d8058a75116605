"""How a user becomes an actor, and what that actor may know of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import IntegrityError, transaction

from workspaces.actors import SYSTEM, Actor, Grant, actor_named, as_actor
from workspaces.errors import NoSuchWorkspace
from workspaces.models import Membership, Workspace
from workspaces.permissions import ACTIONS, Role, allowed
from workspaces.visibility import visible_workspace, visible_workspaces

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


@pytest.fixture
def ana() -> User:
    return User.objects.create_user("ana", first_name="Ana", last_name="Roth")


def test_a_user_acts_with_the_grants_of_all_their_memberships(
    ana: User, acme: Workspace, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    Membership.objects.create(user=ana, workspace=acme, role=Role.LEAD)
    Membership.objects.create(user=ana, workspace=None, role=Role.VIEWER)
    with django_assert_num_queries(1):
        actor = as_actor(ana)
        assert allowed(actor, "locks.force", acme)
    assert actor == Actor(
        f"user:{ana.pk}", "Ana Roth", (Grant(Role.LEAD, acme.pk), Grant(Role.VIEWER, None))
    )


def test_an_actor_stays_the_same_actor() -> None:
    assert as_actor(SYSTEM) is SYSTEM


def test_a_user_without_a_full_name_is_shown_by_their_login() -> None:
    assert as_actor(User.objects.create_user("ben")).label == "ben"


def test_an_inactive_user_has_no_grants(ana: User, acme: Workspace) -> None:
    Membership.objects.create(user=ana, workspace=acme, role=Role.ADMIN)
    ana.is_active = False
    actor = as_actor(ana)
    assert actor.roles == ()
    assert not list(visible_workspaces(actor))


def test_somebody_who_is_not_signed_in_has_no_grants() -> None:
    actor = as_actor(AnonymousUser())
    assert (actor.id, actor.roles) == ("anonymous", ())
    assert not list(visible_workspaces(actor))


def test_an_actor_is_rebuilt_from_their_id_with_the_grants_they_hold_now(
    ana: User, acme: Workspace, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    membership = Membership.objects.create(user=ana, workspace=acme, role=Role.LEAD)
    expected = as_actor(ana)
    with django_assert_num_queries(2):
        assert actor_named(expected.id) == expected
    membership.delete()
    assert actor_named(f"user:{ana.pk}").roles == ()
    assert actor_named("system") is SYSTEM


def test_an_actor_who_is_gone_or_unknown_keeps_their_id_and_has_no_grants(
    ana: User, acme: Workspace
) -> None:
    Membership.objects.create(user=ana, workspace=acme, role=Role.ADMIN)
    User.objects.filter(pk=ana.pk).update(is_active=False)
    unknown = (f"user:{ana.pk}", "user:987654", "user:x", "robot:1", "")
    assert [actor_named(each).id for each in unknown] == list(unknown)
    assert [actor_named(each).roles for each in unknown] == [()] * len(unknown)


def test_a_superuser_has_no_rights_without_a_membership(acme: Workspace) -> None:
    root = as_actor(User.objects.create_superuser("root"))
    assert [action for action in sorted(ACTIONS) if allowed(root, action, acme)] == []
    assert not list(visible_workspaces(root))


def test_a_member_sees_their_own_workspaces_alone(
    ana: User, acme: Workspace, globex: Workspace
) -> None:
    Membership.objects.create(user=ana, workspace=acme, role=Role.VIEWER)
    assert list(visible_workspaces(as_actor(ana))) == [acme]


def test_a_platform_operator_and_the_system_see_all(
    ana: User, acme: Workspace, globex: Workspace
) -> None:
    Membership.objects.create(user=ana, workspace=None, role=Role.OPERATOR)
    assert list(visible_workspaces(as_actor(ana))) == [acme, globex]
    assert list(visible_workspaces(SYSTEM)) == [acme, globex]


def test_a_foreign_workspace_and_one_that_never_existed_get_the_same_answer(
    ana: User, acme: Workspace, globex: Workspace
) -> None:
    Membership.objects.create(user=ana, workspace=acme, role=Role.ADMIN)
    actor = as_actor(ana)
    assert visible_workspace(actor, "acme") == acme
    with pytest.raises(NoSuchWorkspace) as foreign:
        visible_workspace(actor, "globex")
    with pytest.raises(NoSuchWorkspace) as missing:
        visible_workspace(actor, "nowhere")
    assert foreign.value.sentence.replace("globex", "nowhere") == missing.value.sentence
    assert foreign.value.code == missing.value.code == "no_such_workspace"


def test_a_person_has_one_role_per_workspace_and_one_for_all(ana: User, acme: Workspace) -> None:
    for place in (acme, None):
        Membership.objects.create(user=ana, workspace=place, role=Role.VIEWER)
        with pytest.raises(IntegrityError), transaction.atomic():
            Membership.objects.create(user=ana, workspace=place, role=Role.ADMIN)


def test_the_database_refuses_a_role_that_is_not_in_the_table(ana: User, acme: Workspace) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.create(user=ana, workspace=acme, role="owner")


def test_members_and_workspaces_are_named_in_words(ana: User, acme: Workspace) -> None:
    assert str(Membership(user=ana, workspace=acme, role="lead")) == "ana: lead of Acme"
    assert str(Membership(user=ana, workspace=None, role="lead")) == "ana: lead of all workspaces"
