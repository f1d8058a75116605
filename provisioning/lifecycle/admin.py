"""The console's list of lifecycles: to read. They move by what is done to their jobs."""

from __future__ import annotations

from django.contrib import admin

from provisioning.lifecycle.models import Lifecycle
from workspaces.admin.readonly import ReadOnlyAdmin


@admin.register(Lifecycle)
class LifecycleAdmin(ReadOnlyAdmin):
    """Lifecycles of the workspaces that the reader may see."""

    list_display = ("workspace", "state", "job_id", "requested_by", "changed_at")
    list_filter = ("state",)
    list_select_related = ("workspace",)
    search_fields = ("workspace__slug", "=job_id")
    ordering = ("-changed_at",)
