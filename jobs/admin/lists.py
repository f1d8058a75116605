"""The list of jobs, and the list of dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import OuterRef, Subquery
from django.db.models.functions import JSONObject, Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs import registry
from jobs.admin.marks import ago, length, state_badge
from jobs.admin.newest import NewestChangeList, NewestLetters, looked_up
from jobs.admin.views import saved_views
from jobs.admin.visible import job_or_404
from jobs.models import Attempt, DeadLetter, Job
from jobs.models.job import DEAD_LETTER
from jobs.states import Cause, State, WaitReason
from workspaces.admin.filters import WorkspaceFilter
from workspaces.admin.reader import reader
from workspaces.admin.readonly import ReadOnlyAdmin
from workspaces.redaction import scrub

if TYPE_CHECKING:
    from django.db.models import QuerySet

_LAST = (
    Attempt.objects.filter(job=OuterRef("pk"))
    .order_by("-number")
    .values(
        last=JSONObject(
            step="step",
            error="error_class",
            message=Left("message", 200),
            reason=Left("reason", 200),
        )
    )
)


class EqualsFilter(admin.SimpleListFilter):
    """Rows whose field has one of a closed set of values."""

    values: tuple[str, ...] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, value.replace("_", " ")) for value in self.values]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(**{str(self.parameter_name): value}) if value else queryset


class StateFilter(EqualsFilter):
    title = parameter_name = "state"
    values = tuple(state.value for state in State)


class CauseFilter(EqualsFilter):
    title = parameter_name = "cause"
    values = tuple(cause.value for cause in Cause)


class WaitFilter(EqualsFilter):
    """Queued jobs by why they wait; the reason of an ended job's last wait is history."""

    title = "waits for"
    parameter_name = "wait"
    values = tuple(reason.value for reason in WaitReason)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(state=State.QUEUED, wait_reason=value) if value else queryset


class KindFilter(EqualsFilter):
    """The kinds this process knows: asking the rows would read the whole table."""

    title = parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in sorted(registry.KINDS)]


class JobList(ReadOnlyAdmin):
    """What both lists share: rows, search, saved views above them. No bulk deeds yet."""

    change_list_template = "console/job_list.html"
    list_display_links = None
    list_select_related = ("workspace",)
    search_fields = ("key",)
    search_help_text = "An exact job id, key or request id"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).annotate(last=Subquery(_LAST[:1]))
        return rows.defer("params", "result", "progress")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Exact identifiers only."""
        term = search_term.strip()
        if not term:
            return queryset, False
        return queryset.filter(looked_up(term, reader(request))), False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[NewestChangeList]:
        """The newest that fit, without counting or passing all the others."""
        return NewestChangeList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        context = {"saved_views": saved_views(request)}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    @admin.display(description="state")
    def mark(self, job: Job) -> SafeString:
        return state_badge(job)

    @admin.display(description="job")
    def job(self, job: Job) -> SafeString:
        """The kind and the key; on a phone also what stands in columns that are gone there."""
        return format_html(
            '<a href="{}">{} <span class="key">{}</span></a>'
            '<span class="second narrow">{} · {}</span><span class="second narrow">{}</span>',
            reverse("admin:jobs_job_change", args=[job.pk]),
            job.kind,
            job.key,
            job.workspace.slug,
            when(job, timezone.now()),
            self.error(job),
        )

    @admin.display(description="last error")
    def error(self, job: Job) -> SafeString | str:
        """What was raised; of an attempt that could not tell, why it was closed."""
        last: dict[str, str] = getattr(job, "last", None) or {}
        if not last.get("error"):
            return scrub(last.get("reason", ""))
        line = scrub(last["message"]).partition("\n")[0]
        return format_html(
            '<span class="error-class">{}</span>: {}', last["error"].rpartition(".")[2], line
        )


@admin.register(DeadLetter)
class DeadLetterAdmin(JobList):
    """Jobs that ended dead and are neither resolved nor retried: what waits for a person."""

    list_display = ("mark", "job", "workspace_slug", "step", "error", "died")
    list_filter = (CauseFilter, KindFilter, WorkspaceFilter)
    ordering = ("-finished_at", "-id")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[NewestChangeList]:
        return NewestLetters

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(DEAD_LETTER)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """A dead letter is a job, and stays one when it is dead no more."""
        job = job_or_404(request, object_id)
        return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[job.pk]))

    @admin.display(description="workspace")
    def workspace_slug(self, job: Job) -> str:
        return job.workspace.slug

    @admin.display(description="failed step")
    def step(self, job: Job) -> str:
        last: dict[str, str] = getattr(job, "last", None) or {}
        return last.get("step", "")

    @admin.display(description="died")
    def died(self, job: Job) -> SafeString | str:
        return ago(job.finished_at, timezone.now())


def when(job: Job, now: datetime) -> SafeString | str:
    """When a job ended, or next runs, or since when it runs."""
    if job.finished_at is not None:
        return format_html("ended {}", ago(job.finished_at, now))
    if job.state == State.RUNNING and job.started_at is not None:
        return f"runs since {length(now - job.started_at)}"
    return format_html("due {}", ago(job.run_at, now))
