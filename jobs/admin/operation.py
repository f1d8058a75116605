"""Operations and their items, to read. They are started and held by services."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from jobs.admin.lists import EqualsFilter
from jobs.admin.marks import ago, badge
from jobs.models import Operation, OperationItem
from jobs.recovery.account import reasons
from jobs.recovery.course import counts
from jobs.states import ItemOutcome, OperationState
from workspaces.admin.filters import WorkspaceFilter
from workspaces.admin.readonly import ReadOnlyAdmin
from workspaces.redaction import scrub

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

_TONES: dict[str, str] = {
    OperationState.RUNNING: "live",
    OperationState.PAUSED: "doubt",
    OperationState.FINISHED: "good",
    ItemOutcome.DONE: "good",
    ItemOutcome.FAILED: "bad",
}


class OperationStateFilter(EqualsFilter):
    title = parameter_name = "state"
    values = tuple(state.value for state in OperationState)


class OutcomeFilter(EqualsFilter):
    title = parameter_name = "outcome"
    values = tuple(outcome.value for outcome in ItemOutcome)


class OperationFilter(admin.SimpleListFilter):
    """The items of one operation; its page leads here."""

    title = parameter_name = "operation"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = request.GET.get("operation")
        return [(chosen, chosen)] if chosen else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        try:
            return queryset.filter(operation_id=uuid.UUID(self.value() or ""))
        except ValueError:
            return queryset.none()


@admin.register(Operation)
class OperationAdmin(ReadOnlyAdmin):
    """Bulk deeds of the workspaces that the reader may see, newest first."""

    list_display = ("mark", "deed", "so_far", "workspace", "who", "drafted")
    list_filter = (OperationStateFilter, WorkspaceFilter)
    list_select_related = ("workspace",)
    ordering = ("-id",)
    fields = readonly_fields = (
        "mark",
        "shown_note",
        "workspace",
        "selection",
        "selected",
        "eligible",
        "items",
        "why_not",
        "outward",
        "canary",
        "rate_per_minute",
        "stop_after",
        "stop_ratio",
        "shown_reason",
        "who",
        "actor",
        "engine",
        "frozen_at",
        "started_at",
        "finished_at",
        "resolved_at",
        "shown_resolution",
    )

    @admin.display(description="state")
    def mark(self, operation: Operation) -> SafeString:
        return badge(operation.state, _TONES.get(operation.state, "plain"))

    @admin.display(description="operation")
    def deed(self, operation: Operation) -> str:
        return f"{operation.verb} {operation.eligible} by {operation.selection}"

    @admin.display(description="items")
    def so_far(self, operation: Operation) -> str:
        """The outcomes so far; a query a row, of a page that has at most fifty."""
        found = counts(operation.pk).items()
        return ", ".join(f"{count} {outcome}" for outcome, count in found if count)

    @admin.display(description="who")
    def who(self, operation: Operation) -> str:
        return operation.actor_label

    @admin.display(description="drafted")
    def drafted(self, operation: Operation) -> SafeString | str:
        return ago(operation.frozen_at, timezone.now())

    @admin.display(description="items")
    def items(self, operation: Operation) -> SafeString:
        """How many have each outcome; each number leads to them."""
        found = [(o, n) for o, n in counts(operation.pk).items() if n]
        return format_html_join(
            " · ",
            '<a href="{}">{} {}</a>',
            ((_items_url(operation, outcome), count, outcome) for outcome, count in found),
        )

    @admin.display(description="not done because")
    def why_not(self, operation: Operation) -> str:
        found = reasons(operation).items()
        return "; ".join(
            f"{outcome}: " + ", ".join(f"{count} {code}" for code, count in codes.items())
            for outcome, codes in found
        )

    @admin.display(description="engine")
    def engine(self, operation: Operation) -> SafeString | str:
        return _job_link(str(operation.job_id)) if operation.job_id else "not started"

    @admin.display(description="because")
    def shown_note(self, operation: Operation) -> str:
        return scrub(operation.note)

    @admin.display(description="reason")
    def shown_reason(self, operation: Operation) -> str:
        return scrub(operation.reason)

    @admin.display(description="resolution")
    def shown_resolution(self, operation: Operation) -> str:
        return scrub(operation.resolution)


@admin.register(OperationItem)
class OperationItemAdmin(ReadOnlyAdmin):
    """The items of one operation, in their order. Reached from its page."""

    workspace_field = "operation__workspace_id"
    list_display = ("position", "mark", "object", "code", "shown_sentence", "result", "done_at")
    list_display_links = None
    list_filter = (OutcomeFilter, OperationFilter)
    ordering = ("operation", "position")
    fields = readonly_fields = ("operation", *list_display)

    def get_model_perms(self, request: HttpRequest) -> dict[str, bool]:
        """Keep it off the index: items mean nothing without their operation."""
        return {}

    @admin.display(description="outcome")
    def mark(self, item: OperationItem) -> SafeString:
        return badge(item.outcome, _TONES.get(item.outcome, "plain"))

    @admin.display(description="object")
    def object(self, item: OperationItem) -> SafeString | str:
        return _job_link(item.object_id)

    @admin.display(description="result")
    def result(self, item: OperationItem) -> SafeString | str:
        return _job_link(item.result_id) if item.result_id else ""

    @admin.display(description="why")
    def shown_sentence(self, item: OperationItem) -> str:
        return scrub(item.sentence)


def _items_url(operation: Operation, outcome: str) -> str:
    query = urlencode({"operation": operation.pk, "outcome": outcome})
    return f"{reverse('admin:jobs_operationitem_changelist')}?{query}"


def _job_link(object_id: str) -> SafeString | str:
    """A link where the id can be a job's; its page says whether there is one."""
    try:
        address = reverse("admin:jobs_job_change", args=[uuid.UUID(object_id)])
    except ValueError:
        return object_id
    return format_html('<a href="{}">{}</a>', address, object_id)
