"""The demo makes one operator, shows a password once, and gives nobody else rights."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from config.demo.access import access_of, operator
from workspaces.actors import as_actor
from workspaces.models import Membership
from workspaces.permissions import allowed

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


def test_the_operator_can_sign_in_and_may_retry_anywhere() -> None:
    access = access_of(operator())

    assert access.password is not None
    assert access.user.is_staff
    assert not access.user.is_superuser
    assert User.objects.get().check_password(access.password)
    assert allowed(as_actor(access.user), "jobs.operate_risky", None)


def test_the_password_is_made_when_it_can_first_be_shown_and_never_again() -> None:
    """A demo that is killed before its end has shown none."""
    killed = operator()
    assert not killed.has_usable_password()
    shown, again = (access_of(operator()) for _ in range(2))

    assert shown.password is not None
    assert again.password is None
    assert User.objects.get().check_password(shown.password)


@pytest.mark.parametrize("role", [None, "viewer"])
def test_somebody_else_of_that_name_gets_no_rights(role: str | None) -> None:
    user = User.objects.create_user("operator")
    if role:
        Membership.objects.create(user=user, role=role)

    with pytest.raises(CommandError, match="the demo did not make it"):
        operator()

    user.refresh_from_db()
    assert not user.is_staff
    assert not user.has_usable_password()
    assert list(Membership.objects.values_list("role", flat=True)) == ([role] if role else [])
