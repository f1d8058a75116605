"""Service accounts with their tokens, and the records of Idempotency-Keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Case, Count, Q, Value, When
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import path

from workspaces.admin import access
from workspaces.admin.filters import WorkspaceFilter
from workspaces.admin.readonly import ReadOnlyAdmin
from workspaces.models import IdempotencyRecord, ServiceAccount, Token
from workspaces.redaction import scrub

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.urls import URLPattern

TOKENS_SHOWN = 100
_STATE = Case(
    When(revoked_at__isnull=False, then=Value("revoked")),
    When(expires_at__lte=Now(), then=Value("expired")),
    When(account__disabled_at__isnull=False, then=Value("account disabled")),
    When(account__workspace__closed_at__isnull=False, then=Value("workspace closed")),
    default=Value("works"),
)


@admin.register(ServiceAccount)
class ServiceAccountAdmin(ReadOnlyAdmin):
    """Programs that call the API. Who may manage tokens sees them."""

    right = "tokens.manage"
    change_list_template = "console/account_list.html"
    list_display = ("name", "role", "place", "living", "created_at", "disabled_at")
    list_filter = (WorkspaceFilter,)
    list_select_related = ("workspace",)
    search_fields = ("=name",)
    search_help_text = "The exact name"
    ordering = ("name", "pk")

    def get_urls(self) -> list[URLPattern]:
        def page(address: str, view: Any) -> URLPattern:
            name = f"workspaces_serviceaccount_{view.__name__.lower()}"
            asks: Any = self.admin_site.admin_view(view.as_view(model_admin=self))
            made: URLPattern = path(address, asks, name=name)
            return made

        return [
            page("create/", access.Create),
            page("<int:account_id>/issue/", access.Issue),
            page("<int:account_id>/disable/", access.Disable),
            page("tokens/<int:token_id>/rotate/", access.Rotate),
            page("tokens/<int:token_id>/revoke/", access.Revoke),
            *super().get_urls(),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        at_work = Q(tokens__revoked_at=None, tokens__expires_at__gt=Now())
        rows: QuerySet[Any] = super().get_queryset(request)
        counted: QuerySet[Any] = rows.annotate(works=Count("tokens", filter=at_work))
        return counted

    @admin.display(description="workspace")
    def place(self, account: ServiceAccount) -> str:
        return str(account.workspace or "all workspaces")

    @admin.display(description="living tokens")
    def living(self, account: Any) -> int:
        return 0 if account.disabled_at else account.works

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The page of one account. It changes nothing."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        account = self.get_object(request, object_id)
        rows = Token.objects.filter(account=account).annotate(state=_STATE).order_by("-pk")
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"{account.name} · service account",
            "account": account,
            "tokens": rows[:TOKENS_SHOWN],
            "usable": account.disabled_at is None
            and (account.workspace is None or account.workspace.closed_at is None),
        }
        return TemplateResponse(request, "console/account.html", context)


@admin.register(IdempotencyRecord)
class IdempotencyRecordAdmin(ReadOnlyAdmin):
    """What was asked under an Idempotency-Key within the last day, and how it was answered."""

    right = "audit.view"
    list_display = ("created_at", "principal", "key", "request", "status", "replays", "workspace")
    list_filter = (WorkspaceFilter,)
    list_select_related = ("workspace",)
    ordering = ("-id",)
    search_fields = ("key",)
    search_help_text = "The exact key or request id"
    fields = readonly_fields = (
        "key",
        "principal",
        "workspace",
        "request",
        "status",
        "shown_body",
        "job_id",
        "request_id",
        "created_at",
        "last_request_id",
        "replays",
        "expires_at",
    )

    @admin.display(description="request")
    def request(self, record: IdempotencyRecord) -> str:
        return f"{record.method} {record.path}"

    @admin.display(description="answer")
    def shown_body(self, record: IdempotencyRecord) -> str:
        return scrub(bytes(record.body).decode(errors="replace"))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[IdempotencyRecord], search_term: str
    ) -> tuple[QuerySet[IdempotencyRecord], bool]:
        """Exact keys and ids only."""
        term = search_term.strip()
        wanted = Q(key=term) | Q(request_id=term) | Q(last_request_id=term)
        return (queryset.filter(wanted) if term else queryset), False
