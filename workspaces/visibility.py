"""Which workspaces an actor may know of. Everything else does not exist for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.validators import slug_re

from workspaces import sql
from workspaces.errors import NoSuchWorkspace
from workspaces.models import Workspace

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from workspaces.actors import Actor

_OF_SLUG = f"SELECT {sql.columns(Workspace)} FROM workspaces_workspace WHERE slug = %(slug)s"  # noqa: S608  constants


def visible_workspaces(actor: Actor) -> QuerySet[Workspace]:
    """Select the workspaces in which `actor` has any role, closed ones too.

    Filter every list by it (`workspace__in=visible_workspaces(actor)`), so that a guessed id of
    somebody else's record and one that never existed get the same answer.
    """
    if actor.is_system or any(grant.workspace_id is None for grant in actor.roles):
        return Workspace.objects.all()
    return Workspace.objects.filter(pk__in=[grant.workspace_id for grant in actor.roles])


def named(slug: str, among: QuerySet[Workspace]) -> Workspace | None:
    """The workspace with that slug. For what cannot be one, such as NUL, no database is asked."""
    return among.filter(slug=slug).first() if slug_re.fullmatch(slug) else None


def visible_workspace(actor: Actor, slug: str) -> Workspace:
    """Find one visible workspace by its slug. Raises NoSuchWorkspace, also for a foreign one.

    For what cannot be a slug, such as NUL, no database is asked.
    """
    rows = sql.execute(_OF_SLUG, {"slug": slug}) if slug_re.fullmatch(slug) else []
    for workspace in sql.made(Workspace, rows):
        if actor.is_system or any(grant.covers(workspace.pk) for grant in actor.roles):
            return workspace
    raise NoSuchWorkspace(slug)
