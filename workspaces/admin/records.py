"""Workspaces, memberships and the audit trail, to read."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Q

from workspaces.admin.filters import WorkspaceFilter
from workspaces.admin.readonly import ReadOnlyAdmin
from workspaces.admin.trail import NewestEvents, ResultFilter
from workspaces.models import AuditEvent, Membership, Workspace
from workspaces.redaction import redact, scrub

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


@admin.register(Workspace)
class WorkspaceAdmin(ReadOnlyAdmin):
    """Closing one is a service, not an edit."""

    workspace_field = "pk"
    list_display = ("slug", "name", "closed_at", "created_at")
    fields = ("slug", "name", "closed_at", "created_at")
    search_fields = ("=slug",)
    search_help_text = "The exact slug"


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    """Who may do what, and where. An empty workspace means all of them."""

    list_display = ("user", "role", "place")
    fields = ("user", "role", "workspace")
    list_filter = (WorkspaceFilter,)
    list_select_related = ("user", "workspace")
    search_fields = ("=user__username",)
    search_help_text = "The exact user name"
    ordering = ("user__username", "pk")

    @admin.display(description="workspace")
    def place(self, membership: Membership) -> str:
        return str(membership.workspace or "all workspaces")


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    """Who did what, to which object, and why. Kept as it was written."""

    right = "audit.view"
    change_list_template = "console/audit_list.html"
    list_display = ("when", "who", "deed", "object", "place", "shown_reason", "became")
    list_filter = (ResultFilter, WorkspaceFilter)
    list_select_related = ("workspace",)
    search_fields = ("object_id",)
    search_help_text = "The exact object id, request id or operation id"
    fields = (
        "when",
        ("who", "principal"),
        "deed",
        "object",
        "place",
        "shown_reason",
        "became",
        "shown_before",
        "shown_after",
        "operation_id",
        "request_id",
    )

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[NewestEvents]:
        return NewestEvents

    @admin.display(description="when")
    def when(self, event: AuditEvent) -> datetime:
        return event.created_at

    @admin.display(description="who")
    def who(self, event: AuditEvent) -> str:
        return event.actor_label

    @admin.display(description="principal")
    def principal(self, event: AuditEvent) -> str:
        return event.actor

    @admin.display(description="deed")
    def deed(self, event: AuditEvent) -> str:
        return event.action

    @admin.display(description="workspace")
    def place(self, event: AuditEvent) -> str:
        return str(event.workspace or "the platform")

    @admin.display(description="result")
    def became(self, event: AuditEvent) -> str:
        """Done, or why not."""
        return event.result.replace("_", " ")

    @admin.display(description="reason")
    def shown_reason(self, event: AuditEvent) -> str:
        return scrub(event.reason)

    @admin.display(description="before")
    def shown_before(self, event: AuditEvent) -> str:
        return _shown(event.before)

    @admin.display(description="after")
    def shown_after(self, event: AuditEvent) -> str:
        return _shown(event.after)

    @admin.display(description="object")
    def object(self, event: AuditEvent) -> str:
        return f"{event.object_type} {event.object_id}"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEvent], search_term: str
    ) -> tuple[QuerySet[AuditEvent], bool]:
        """Exact ids only, so that a search is a lookup."""
        term = search_term.strip()
        if not term:
            return queryset, False
        wanted = Q(object_id=term) | Q(request_id=term) | operation(term)
        return queryset.filter(wanted), False


def _shown(value: object) -> str:
    """A JSON value that a service wrote, as text without secrets; empty for null."""
    if value is None:
        return ""
    return scrub(json.dumps(redact(value), indent=2, ensure_ascii=False))


def operation(term: str) -> Q:
    """The audit event of an operation id; of nothing, when ``term`` is not one."""
    try:
        return Q(operation_id=UUID(term))
    except ValueError:
        return Q(pk__in=[])
