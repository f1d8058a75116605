"""The console's list of alerts: to read. An alert ends by what is done to its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html

from alerts.models import Alert, AlertMember
from workspaces.admin.readonly import ReadOnlyAdmin, ReadOnlyInline

if TYPE_CHECKING:
    from django.utils.safestring import SafeString


class MemberInline(ReadOnlyInline):
    """The dead letters of one alert."""

    model = AlertMember
    fields = readonly_fields = ("job", "opened_at", "closed_at", "ending")
    ordering = ("-pk",)
    verbose_name_plural = "dead letters"

    @admin.display(description="job")
    def job(self, member: AlertMember) -> SafeString:
        """A link to the job's page, which an old alert may outlive."""
        address = reverse("admin:jobs_job_change", args=[member.job_id])
        return format_html('<a href="{}">{}</a>', address, member.job_id)


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """Alerts of the workspaces that the reader may see; open ones first."""

    right = "alerts.view"
    list_display = ("title", "severity", "state", "count", "workspace", "opened_at", "last_at")
    list_filter = ("state", "severity")
    list_select_related = ("workspace",)
    search_fields = ("title", "=members__job_id", "fingerprint")
    ordering = ("state", "-last_at")
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
