"""The list of all jobs, the page of one job, and the addresses of what can be done to it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone
from django.utils.safestring import SafeString

from jobs.admin.cancel import Cancel
from jobs.admin.lists import (
    CauseFilter,
    JobList,
    KindFilter,
    StateFilter,
    WaitFilter,
    when,
)
from jobs.admin.marks import state_of
from jobs.admin.page import job_page
from jobs.admin.receipts import receipt
from jobs.admin.reconcile import Reconcile
from jobs.admin.resolve import Resolve
from jobs.admin.retry import Restart, Resume
from jobs.admin.visible import job_or_404
from jobs.models import Job
from workspaces.admin.filters import WorkspaceFilter
from workspaces.admin.reader import reader

if TYPE_CHECKING:
    from django.urls import URLPattern

CONFIRMED = (Resume, Restart, Resolve, Cancel, Reconcile)


@admin.register(Job)
class JobAdmin(JobList):
    """Every job of the workspaces that the reader may see. Rows are moved by services alone."""

    list_display = ("mark", "job", "workspace_slug", "attempts", "moment", "error")
    ordering = ("-id",)
    list_filter = (StateFilter, CauseFilter, WaitFilter, KindFilter, WorkspaceFilter)

    def get_urls(self) -> list[URLPattern]:
        site = self.admin_site
        confirms = [
            path(
                f"<uuid:job_id>/{page.verb.value}/",
                site.admin_view(page.as_view(model_admin=self)),
                name=f"jobs_job_{page.verb.value}",
            )
            for page in CONFIRMED
        ]
        receipts = path(
            "<uuid:job_id>/receipts/<int:event_id>/",
            site.admin_view(self.receipt_view),
            name="jobs_job_receipt",
        )
        return [*confirms, receipts, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The page of one job. It changes nothing."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        now = timezone.now()
        job = job_or_404(request, object_id)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"{state_of(job)} · {job.kind} {job.key}",
            "page": job_page(job, reader(request), now),
            "job": job,
            "now": now,
        }
        return TemplateResponse(request, "console/job.html", context)

    def receipt_view(self, request: HttpRequest, job_id: uuid.UUID, event_id: int) -> HttpResponse:
        return receipt(request, job_id, event_id, self)

    @admin.display(description="workspace")
    def workspace_slug(self, job: Job) -> str:
        return job.workspace.slug

    @admin.display(description="attempts")
    def attempts(self, job: Job) -> int:
        return job.attempt

    @admin.display(description="when")
    def moment(self, job: Job) -> SafeString | str:
        return when(job, timezone.now())
