"""Events and upkeep, to read."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import Q

from jobs.curtain import Curtain
from jobs.models import Event, Job, Upkeep
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
        """What listeners were told, behind the curtain of the job that it is about."""
        job = _job_of(event)
        data = redact(event.data)
        shown = Curtain.of(job).scrubbed(data) if job else data
        return scrub(json.dumps(shown, indent=2, ensure_ascii=False))

    @admin.display(description="error")
    def shown_error(self, event: Event) -> str:
        return scrub(event.error)


def _job_of(event: Event) -> Job | None:
    """The job that an event is about, if it is about one and that is still there."""
    if not event.type.startswith("job."):
        return None
    try:
        return Job.objects.filter(pk=uuid.UUID(event.subject)).first()
    except ValueError:
        return None


@admin.register(Upkeep)
class UpkeepAdmin(ReadOnlyAdmin):
    """When lost and waiting jobs were last looked after. It belongs to the whole platform."""

    workspace_field = None
    list_display = ("name", "passed_at", "by")
    fields = ("name", "passed_at", "by")
