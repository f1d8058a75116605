"""Tenants, memberships and the audit trail as they are stored."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q

from workspaces.errors import RecordKept
from workspaces.permissions import Role

_ROLES = [(role.value, role.value.title()) for role in Role]
_WORKSPACE_KEPT = "a workspace is closed, never deleted; use workspaces.closing.close"
_AUDIT_KEPT = "an audit event stays as it was written; record a new one"


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


class Membership(models.Model):
    """One person's role in one workspace, or in all of them when `workspace` is empty.

    A person may have both; they then hold the rights of either.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, null=True, blank=True, related_name="memberships"
    )
    role = models.CharField(max_length=16, choices=_ROLES)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "workspace"], name="membership_once"),
            models.UniqueConstraint(
                fields=["user"], condition=Q(workspace=None), name="membership_of_all_once"
            ),
            models.CheckConstraint(
                condition=Q(role__in=[role for role, _ in _ROLES]), name="membership_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.role} of {self.workspace or 'all workspaces'}"


class AuditEventQuerySet(models.QuerySet["AuditEvent"]):
    """Audit events, to read and to add to; rewriting is refused."""

    def update(self, **kwargs: Any) -> NoReturn:
        """Raise RecordKept."""
        raise RecordKept(_AUDIT_KEPT)

    def delete(self) -> NoReturn:
        """Raise RecordKept."""
        raise RecordKept(_AUDIT_KEPT)

    def bulk_update(self, objs: Any, fields: Any, batch_size: int | None = None) -> NoReturn:
        """Raise RecordKept."""
        raise RecordKept(_AUDIT_KEPT)


class AuditEvent(models.Model):
    """One deed of one actor: who, what, to which object, why, and what became of it.

    Append only: the model inserts and refuses everything else. Hole: SQL by hand and
    `bulk_create(update_conflicts=True)` are not stopped. The actor is text, so that the trail
    outlives the person. Written by `workspaces.audit.record` alone.
    """

    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, null=True, related_name="audit_events"
    )
    actor = models.CharField(max_length=200)
    actor_label = models.CharField(max_length=200)
    action = models.CharField(max_length=100)
    object_type = models.CharField(max_length=100)
    object_id = models.CharField(max_length=200)
    reason = models.TextField(blank=True)
    request_id = models.CharField(max_length=200, blank=True)
    operation_id = models.UUIDField(null=True, unique=True)
    before = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    after = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    result = models.CharField(max_length=100)
    created_at = models.DateTimeField(auto_now_add=True)

    objects: ClassVar[models.Manager[AuditEvent]] = AuditEventQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["workspace", "-id"], name="audit_of_workspace"),
            models.Index(fields=["object_type", "object_id"], name="audit_of_object"),
        ]

    def __str__(self) -> str:
        return f"{self.actor_label}: {self.action} {self.object_type} {self.object_id}"

    def save_base(self, *args: Any, **kwargs: Any) -> None:
        """Insert this event, once. Raises RecordKept when it is already stored."""
        if not self._state.adding:
            raise RecordKept(_AUDIT_KEPT)
        super().save_base(*args, **{**kwargs, "force_insert": True})

    def delete(self, using: Any = None, keep_parents: bool = False) -> NoReturn:  # noqa: FBT001, FBT002
        """Raise RecordKept."""
        raise RecordKept(_AUDIT_KEPT)
