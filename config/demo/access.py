"""Who retries in the demo, and how the reader gets into the console as the same person."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from workspaces.models import Membership
from workspaces.permissions import Role

USERNAME = "operator"


@dataclass(frozen=True)
class Access:
    """The operator; ``password`` only when it was made now, since only its hash is kept."""

    user: User
    password: str | None


def operator() -> User:
    """Get or make the person who operates this machine: staff, and lead in all workspaces.

    Raises CommandError where that name belongs to somebody whom the demo did not make: it gives
    nobody rights that they did not have.
    """
    user, created = User.objects.get_or_create(username=USERNAME, defaults={"is_staff": True})
    if created:
        user.set_unusable_password()
        user.save()
        Membership.objects.create(user=user, workspace=None, role=Role.LEAD.value)
    elif not Membership.objects.filter(user=user, workspace=None, role=Role.LEAD.value).exists():
        raise CommandError(
            f"Nothing was done: there is a user {USERNAME!r} who is not lead in all workspaces, so"
            " the demo did not make it. Give it that membership, or use another FIREDOOR_VAR."
        )
    return user


def access_of(user: User) -> Access:
    """A password, made once, and not before it is shown: a demo that was killed has made none."""
    if user.has_usable_password():
        return Access(user, None)
    password = secrets.token_urlsafe(12)
    user.set_password(password)
    user.save()
    return Access(user, password)
