"""The console's pages of webhooks: to read. Deeds are done over HTTP; each page names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html

from webhooks.models import DeliveryAttempt, Endpoint, WebhookDelivery
from webhooks.requests import live_secrets
from webhooks.shown import delivery_lines
from workspaces.admin.readonly import ReadOnlyAdmin, ReadOnlyInline

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.utils.safestring import SafeString


@admin.register(Endpoint)
class EndpointAdmin(ReadOnlyAdmin):
    """Endpoints of the workspaces that the reader may see. No secret and no header is shown."""

    right = "webhooks.view"
    list_display = ("name", "state", "reason", "failures", "state_since", "workspace")
    list_filter = ("state",)
    list_select_related = ("workspace",)
    search_fields = ("=id", "description")
    ordering = ("-id",)
    fieldsets = (
        (None, {"fields": ("url", "description", "events", "state", "reason", "state_since")}),
        (
            "Health",
            {"fields": ("failures", "first_failed_at", "last_failed_at", "lane", "delays")},
        ),
        ("Signed with", {"fields": ("secrets_by_their_end",)}),
        ("Record", {"fields": ("workspace", "actor", "created_at")}),
    )
    readonly_fields = ("secrets_by_their_end",)

    @admin.display(description="endpoint")
    def name(self, endpoint: Endpoint) -> str:
        return endpoint.description or endpoint.url.partition("?")[0]

    @admin.display(description="secrets")
    def secrets_by_their_end(self, endpoint: Endpoint) -> str:
        """The last characters of each that signs, and until when."""
        return ", ".join(
            f"…{one.hint}"
            + (f" until {one.expires_at:%Y-%m-%d %H:%M} UTC" if one.expires_at else "")
            for one in live_secrets(endpoint)
        )


class AttemptInline(ReadOnlyInline):
    """The requests of one delivery."""

    model = DeliveryAttempt
    fields = readonly_fields = (
        "number",
        "trigger",
        "code",
        "status_code",
        "milliseconds",
        "ended_at",
        "excerpt",
    )
    ordering = ("pk",)
    verbose_name_plural = "requests"


@admin.register(WebhookDelivery)
class DeliveryAdmin(ReadOnlyAdmin):
    """Deliveries, newest first; what receivers answered is for who may operate webhooks."""

    right = "webhooks.operate"
    list_display = ("message_id", "event_type", "standing", "endpoint", "created_at", "workspace")
    list_filter = ("status",)
    list_select_related = ("workspace", "endpoint", "message")
    search_fields = ("=id", "=message__id", "=job_id")
    ordering = ("-id",)
    inlines = (AttemptInline,)
    fields = readonly_fields = (
        "message_id",
        "event_type",
        "standing",
        "endpoint",
        "newest_job",
        "sends",
        "created_at",
        "finished_at",
        "workspace",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Without the bodies, which lists and pages do not show."""
        return super().get_queryset(request).defer("message__body")

    @admin.display(description="event")
    def event_type(self, delivery: WebhookDelivery) -> str:
        return delivery.message.type

    @admin.display(description="status")
    def standing(self, delivery: WebhookDelivery) -> str:
        """As the API tells it: of an open one its job knows."""
        return str(delivery_lines([delivery])[0]["status"])

    @admin.display(description="newest job")
    def newest_job(self, delivery: WebhookDelivery) -> SafeString | str:
        """A link to the job's page, which an old delivery may outlive."""
        if delivery.job_id is None:
            return "none: it was skipped"
        address = reverse("admin:jobs_job_change", args=[delivery.job_id])
        return format_html('<a href="{}">{}</a>', address, delivery.job_id)
