"""The console's list of lifecycles: to read. They move by what is done to their jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from provisioning.lifecycle.models import Lifecycle
from workspaces.actors import as_actor
from workspaces.permissions import allowed
from workspaces.visibility import visible_workspaces

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


@admin.register(Lifecycle)
class LifecycleAdmin(admin.ModelAdmin):
    """Lifecycles of the workspaces that the reader may see; Django's own rights play no part."""

    list_display = ("workspace", "state", "job_id", "requested_by", "changed_at")
    list_filter = ("state",)
    list_select_related = ("workspace",)
    search_fields = ("workspace__slug", "=job_id")
    ordering = ("-changed_at",)
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Lifecycle]:
        """Select what the reader may know of; the rest is not found, whatever its id."""
        visible = visible_workspaces(as_actor(request.user))
        return super().get_queryset(request).filter(workspace__in=visible)

    def has_view_permission(self, request: HttpRequest, obj: Lifecycle | None = None) -> bool:
        """Ask the table of roles: about the lifecycle's workspace, or about any for the list."""
        actor = as_actor(request.user)
        places = [obj.workspace_id] if obj else [grant.workspace_id for grant in actor.roles]
        return any(allowed(actor, "jobs.view", place) for place in places)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the app to whoever may see the list."""
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: a workspace is asked for by `request.request`."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: it moves by its job."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: it is the workspace's record."""
        return False
