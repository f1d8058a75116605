"""The tenant."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from django.db import models

from workspaces.errors import RecordKept

_WORKSPACE_KEPT = "a workspace is closed, never deleted; use workspaces.closing.close"


class WorkspaceQuerySet(models.QuerySet["Workspace"]):
    """Workspaces; deleting them is refused."""

    def delete(self) -> NoReturn:
        """Raise RecordKept."""
        raise RecordKept(_WORKSPACE_KEPT)


class Workspace(models.Model):
    """A tenant. Every record belongs to one and nothing crosses.

    It closes (`closed_at`, once) and never vanishes: deleting is refused by the model, and by
    the database as long as any record points here. Hole: SQL by hand on an empty one.
    """

    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    closed_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    objects: ClassVar[models.Manager[Workspace]] = WorkspaceQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["slug"]

    def __str__(self) -> str:
        return f"{self.name} (closed)" if self.closed_at else self.name

    def delete(self, using: Any = None, keep_parents: bool = False) -> NoReturn:  # noqa: FBT001, FBT002
        """Raise RecordKept."""
        raise RecordKept(_WORKSPACE_KEPT)
