"""Events and upkeep, to read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import Q

from jobs.models import Event, Upkeep
from workspaces.admin.filters import WorkspaceFilter
from workspaces.admin.readonly import ReadOnlyAdmin
from workspaces.redaction import redact, scrub

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """What happened, and whether everybody who listens has heard of it."""

    list_display = ("created_at", "type", "subject", "workspace", "delivered_at", "tries")
    list_filter = (WorkspaceFilter,)
    list_select_related = ("workspace",)
    ordering = ("-id",)
    search_fields = ("subject",)
    search_help_text = "The exact id of what it is about"
    fields = readonly_fields = (
        "type",
        "subject",
        "workspace",
        "created_at",
        "delivered_at",
        "tries",
        "shown_error",
        "shown_data",
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Event], search_term: str
    ) -> tuple[QuerySet[Event], bool]:
        """Exact subjects only."""
        term = search_term.strip()
        return queryset.filter(Q(subject=term) if term else Q()), False

    @admin.display(description="data")
    def shown_data(self, event: Event) -> str:
        return scrub(json.dumps(redact(event.data), indent=2, ensure_ascii=False))

    @admin.display(description="error")
    def shown_error(self, event: Event) -> str:
        return scrub(event.error)


@admin.register(Upkeep)
class UpkeepAdmin(ReadOnlyAdmin):
    """When lost and waiting jobs were last looked after. It belongs to the whole platform."""

    workspace_field = None
    list_display = ("name", "passed_at", "by")
    fields = ("name", "passed_at", "by")
