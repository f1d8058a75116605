"""The console's list of alerts: to read. An alert ends by what is done to its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from alerts.models import Alert, AlertMember
from workspaces.actors import as_actor
from workspaces.permissions import allowed
from workspaces.visibility import visible_workspaces

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


class _ReadOnly:
    """Refuses what would write. Django's own permissions play no part; the table of roles does."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class MemberInline(_ReadOnly, admin.TabularInline):
    """The dead letters of one alert."""

    model = AlertMember
    fields = ("job_id", "opened_at", "closed_at", "ending")
    readonly_fields = fields
    ordering = ("-pk",)
    verbose_name_plural = "dead letters"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow what the alert itself allowed: nobody gets here without it."""
        return True


@admin.register(Alert)
class AlertAdmin(_ReadOnly, admin.ModelAdmin):
    """Alerts of the workspaces that the reader may see; open ones first."""

    list_display = ("title", "severity", "state", "count", "workspace", "opened_at", "last_at")
    list_filter = ("state", "severity")
    list_select_related = ("workspace",)
    search_fields = ("title", "=members__job_id", "fingerprint")
    ordering = ("state", "-last_at")
    actions = None
    inlines = (MemberInline,)
    fieldsets = (
        (None, {"fields": ("title", "summary", "severity", "state", "workspace", "runbook")}),
        ("Newest dead letter", {"fields": ("trace",)}),
        (
            "History",
            {"fields": ("opened_at", "last_at", "count", "resolved_at", "resolution")},
        ),
        ("Cause", {"fields": ("rule", "cause_key", "fingerprint")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Alert]:
        """Select what the reader may know of; the rest is not found, whatever its id."""
        visible = visible_workspaces(as_actor(request.user))
        return super().get_queryset(request).filter(workspace__in=visible)

    def has_view_permission(self, request: HttpRequest, obj: Alert | None = None) -> bool:
        """Ask the table of roles: about the alert's workspace, or about any for the list."""
        actor = as_actor(request.user)
        places = [obj.workspace_id] if obj else [grant.workspace_id for grant in actor.roles]
        return any(allowed(actor, "alerts.view", place) for place in places)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the app to whoever may see the list."""
        return self.has_view_permission(request)
