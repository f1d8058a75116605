"""Who is doing it: a person, a service account, a schedule, or the system itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.contrib.auth import get_user_model

from workspaces.models import Membership, ServiceAccount
from workspaces.permissions import Role

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User


@dataclass(frozen=True, slots=True)
class Grant:
    """One role in one workspace, or in all of them when `workspace_id` is None."""

    role: Role
    workspace_id: int | None

    def covers(self, workspace_id: int | None) -> bool:
        """Say whether this grant counts there; None asks about the platform as a whole."""
        return self.workspace_id is None or self.workspace_id == workspace_id


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who acts, with the rights they had when they were looked up.

    `id` is what records keep: `user:<id>`, `service:<id>`, `schedule:<id>` or `system`.
    `label` is for people. Rights are a snapshot: make a new actor for each request.
    """

    id: str
    label: str
    roles: tuple[Grant, ...] = ()

    @property
    def is_system(self) -> bool:
        """Say whether this is the platform itself, which may do everything."""
        return self.id == "system"


SYSTEM: Final = Actor(id="system", label="the system")
_NOBODY: Final = Actor(id="anonymous", label="somebody who is not signed in")


def as_actor(value: Actor | User | AnonymousUser) -> Actor:
    """Turn a user into an actor with all their grants (one query); an actor is returned as is.

    An inactive user acts under their own name, somebody not signed in under none; neither holds
    any grant.
    """
    if isinstance(value, Actor):
        return value
    if not value.is_authenticated:
        return _NOBODY
    label = value.get_full_name() or value.get_username()
    return Actor(id=f"user:{value.pk}", label=label, roles=_grants(value))


def actor_named(actor_id: str) -> Actor:
    """Rebuild the actor that a record names, with the grants they hold now (two queries).

    For work that goes on after its author has left: a user who is deleted or inactive, an account
    that is disabled, and an id of any sort that this app does not know, act under their id and
    hold no grant.
    """
    if actor_id == SYSTEM.id:
        return SYSTEM
    sort, _, number = actor_id.partition(":")
    if sort == "user" and number.isdecimal():
        user = get_user_model().objects.filter(pk=int(number)).first()
        if user is not None:
            return as_actor(user)
    if sort == "service" and number.isdecimal():
        account = ServiceAccount.objects.filter(pk=int(number), disabled_at=None).first()
        if account is not None:
            return as_service(account)
    return Actor(id=actor_id, label=actor_id)


def as_service(account: ServiceAccount) -> Actor:
    """The account as somebody who acts."""
    return service(account.pk, account.name, account.role, account.workspace_id)


def service(account_id: int, name: str, role: str, workspace_id: int | None) -> Actor:
    """The account with this id, name, role and place as somebody who acts."""
    grant = Grant(Role(role), workspace_id)
    return Actor(id=f"service:{account_id}", label=name, roles=(grant,))


def _grants(user: User) -> tuple[Grant, ...]:
    if not user.is_active:
        return ()
    rows = Membership.objects.filter(user=user).order_by("pk").values_list("role", "workspace_id")
    return tuple(Grant(Role(role), workspace_id) for role, workspace_id in rows)
