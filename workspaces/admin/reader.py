"""Who looks at a page, and which rows they may read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from workspaces.actors import Actor, as_actor
from workspaces.permissions import TABLE

if TYPE_CHECKING:
    from django.http import HttpRequest


def reader(request: HttpRequest) -> Actor:
    """The actor behind a request, with the rights they hold now; looked up once a request."""
    known = getattr(request, "_firedoor_reader", None)
    if isinstance(known, Actor):
        return known
    actor = as_actor(request.user)
    request._firedoor_reader = actor  # type: ignore[attr-defined]
    return actor


def may_anywhere(actor: Actor, right: str) -> bool:
    """Whether ``actor`` holds ``right`` in any workspace at all."""
    return any(right in TABLE[grant.role] for grant in actor.roles)


def readable(actor: Actor, right: str, field: str = "workspace_id") -> Q:
    """The rows whose workspace is one in which ``actor`` holds ``right``.

    Rows of no workspace belong to the platform: only a grant of all workspaces reads them.
    """
    places = [grant.workspace_id for grant in actor.roles if right in TABLE[grant.role]]
    return Q() if None in places else Q(**{f"{field}__in": places})
