"""The console's pages of webhooks: to read. Deeds are done over HTTP; each page names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import OuterRef, Subquery
from django.urls import reverse
from django.utils.html import format_html

from jobs.models import Job
from webhooks import advice
from webhooks.egress import without_query
from webhooks.models import DeliveryAttempt, Endpoint, WebhookDelivery
from webhooks.requests import live_secrets
from webhooks.shown import status_told
from webhooks.states import DeliveryState
from workspaces.admin.readonly import ReadOnlyAdmin, ReadOnlyInline

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.utils.safestring import SafeString


def _address(noun: str, slug: str, pk: object) -> str:
    """Where the API has it."""
    names = {"slug": slug, f"{noun}_id": pk}
    return reverse(f"api-webhook-{noun}", kwargs=names)


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
        (None, {"fields": ("what_to_do", "state", "reason", "state_since")}),
        (None, {"fields": ("where", "description", "told_of")}),
        (
            "Health",
            {"fields": ("failures", "first_failed_at", "last_failed_at", "lane", "delays")},
        ),
        ("Signed with", {"fields": ("secrets_by_their_end",)}),
        ("Record", {"fields": ("workspace", "actor", "created_at")}),
    )
    readonly_fields = ("what_to_do", "where", "told_of", "secrets_by_their_end")

    @admin.display(description="endpoint")
    def name(self, endpoint: Endpoint) -> str:
        return endpoint.description or without_query(endpoint.url)

    @admin.display(description="what to do")
    def what_to_do(self, endpoint: Endpoint) -> str:
        """What its state means, what waits, and the deed that helps."""
        waiting = WebhookDelivery.objects.filter(endpoint=endpoint, status=DeliveryState.OPEN)
        skips = endpoint.full_said_at is not None
        address = _address("endpoint", endpoint.workspace.slug, endpoint.pk)
        return advice.of_endpoint(endpoint.state, waiting.count(), address, skips=skips)

    @admin.display(description="URL")
    def where(self, endpoint: Endpoint) -> str:
        """Without its query, in which many receivers want a key."""
        plain, asked, _hidden = endpoint.url.partition("?")
        return f"{plain}?… (the rest is hidden)" if asked else plain

    @admin.display(description="events")
    def told_of(self, endpoint: Endpoint) -> str:
        return ", ".join(endpoint.events)

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
        "what_to_do",
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
        """Without the bodies, which lists and pages do not show; with how their jobs stand."""
        job = Job.objects.filter(pk=OuterRef("job_id")).values("state")
        rows = super().get_queryset(request).defer("message__body")
        with_states: QuerySet[Any] = rows.annotate(job_state=Subquery(job))
        return with_states

    @admin.display(description="what to do")
    def what_to_do(self, delivery: WebhookDelivery) -> str:
        """What its status means, and the deed that helps."""
        slug = delivery.workspace.slug
        own = _address("delivery", slug, delivery.pk)
        return advice.of_delivery(
            delivery.status, own, _address("endpoint", slug, delivery.endpoint_id)
        )

    @admin.display(description="event")
    def event_type(self, delivery: WebhookDelivery) -> str:
        return delivery.message.type

    @admin.display(description="status")
    def standing(self, delivery: WebhookDelivery) -> str:
        """As the API tells it: of an open one its job knows."""
        return status_told(delivery, getattr(delivery, "job_state", None))

    @admin.display(description="newest job")
    def newest_job(self, delivery: WebhookDelivery) -> SafeString | str:
        """A link to the job's page, which an old delivery may outlive."""
        if delivery.job_id is None:
            return "none: it was skipped"
        address = reverse("admin:jobs_job_change", args=[delivery.job_id])
        return format_html('<a href="{}">{}</a>', address, delivery.job_id)
