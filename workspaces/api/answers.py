"""What clients are sent, and what a row is told as."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from workspaces.actors import Actor
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import ACTIONS, allowed
from workspaces.redaction import redact, scrub, scrub_within


class WorkspaceLine(serializers.Serializer):
    """A workspace in a list."""

    slug = serializers.CharField()
    name = serializers.CharField()
    created_at = serializers.DateTimeField()
    closed_at = serializers.DateTimeField(
        allow_null=True, help_text="Since when it takes no new work."
    )


class WorkspacePage(serializers.Serializer):
    """A page of the list, by slug. The list ends where `next` is null."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = WorkspaceLine(many=True)


class WorkspaceShown(WorkspaceLine):
    """One workspace, and what the caller may do there."""

    rights = serializers.ListField(child=serializers.CharField())


class AuditLine(serializers.Serializer):
    """One deed of one actor, done or refused."""

    id = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    actor = serializers.CharField(help_text="`user:7`, `service:3`, `schedule:1` or `system`.")
    actor_label = serializers.CharField()
    action = serializers.CharField(help_text="Such as `job.resume`.")
    object_type = serializers.CharField()
    object_id = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    result = serializers.CharField(help_text="`done`, or the code of the refusal.")
    request_id = serializers.CharField(allow_blank=True)
    operation_id = serializers.UUIDField(allow_null=True)
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class AuditPage(serializers.Serializer):
    """A page of the trail, newest first. The list ends where `next` is null."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = AuditLine(many=True)


def line_of(workspace: Workspace) -> dict[str, Any]:
    """A workspace as a list has it."""
    return {
        "slug": workspace.slug,
        "name": workspace.name,
        "created_at": workspace.created_at.isoformat(),
        "closed_at": workspace.closed_at.isoformat() if workspace.closed_at else None,
    }


def shown(workspace: Workspace, actor: Actor) -> dict[str, Any]:
    """A workspace by itself, to one actor."""
    rights = [right for right in sorted(ACTIONS) if allowed(actor, right, workspace)]
    return {**line_of(workspace), "rights": rights}


def told(event: AuditEvent) -> dict[str, Any]:
    """An audit event, without what people wrote into it by mistake."""
    return {
        "id": event.pk,
        "created_at": event.created_at.isoformat(),
        "actor": event.actor,
        "actor_label": event.actor_label,
        "action": event.action,
        "object_type": event.object_type,
        "object_id": event.object_id,
        "reason": scrub(event.reason),
        "result": event.result,
        "request_id": event.request_id,
        "operation_id": str(event.operation_id) if event.operation_id else None,
        "before": scrub_within(redact(event.before)),
        "after": scrub_within(redact(event.after)),
    }
