"""The audit trail."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F

from workspaces.errors import RecordKept
from workspaces.models.newest import NewestFirst
from workspaces.models.workspace import Workspace

_AUDIT_KEPT = "an audit event stays as it was written; record a new one"


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

    Append only: the model inserts and refuses everything else, and so do triggers in the
    database, `TRUNCATE` on PostgreSQL included. Hole: whoever owns the tables can take the
    triggers away. The actor is text, so that the trail outlives the person. Written by
    `workspaces.audit.record` alone.
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
            models.Index(F("workspace"), NewestFirst(), name="audit_newest"),
            models.Index(F("workspace"), F("actor"), NewestFirst(), name="audit_newest_of_actor"),
            models.Index(fields=["workspace", "created_at"], name="audit_of_time"),
            models.Index(fields=["object_id"], name="audit_of_object_id"),
            models.Index(fields=["request_id"], name="audit_of_request"),
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
