"""The base of views about one job."""

from __future__ import annotations

import uuid
from typing import Any

from django.urls import reverse
from rest_framework.request import Request

from jobs.curtain import without_secrets
from jobs.models import Job
from jobs.recovery.preflight import Governing, no_such_job
from workspaces.http.views import WorkspaceView
from workspaces.permissions import require


class JobView(WorkspaceView):
    """A view about one job of the workspace; one of another workspace does not exist: 404."""

    rights = {"GET": "jobs.view"}
    verb: str | None = None  # what a POST does to the job: its kind says which right that needs
    job: Job

    def permitted(self, request: Request, **kwargs: Any) -> None:
        found = Job.objects.select_related("workspace").filter(workspace=self.workspace)
        job = found.filter(pk=kwargs["job_id"]).first()
        if job is None:
            raise no_such_job(kwargs["job_id"])
        self.job = job
        if request.method == "POST" and (verb := self.verb_in(request)):
            require(self.actor, verb, self.workspace, Governing(job))

    def deed(self, request: Request) -> str:
        verb = self.verb_in(request)
        return f"job.{verb}" if verb else ""

    def without_secrets(self, reason: str) -> str:
        job = getattr(self, "job", None)
        return without_secrets(reason, [job]) if job is not None else reason

    def verb_in(self, request: Request) -> str | None:
        """What the POST would do; None where that cannot be told yet."""
        return self.verb


def url_of(job_id: uuid.UUID, slug: str) -> str:
    """The address of a job."""
    return reverse("api-job", kwargs={"slug": slug, "job_id": job_id})
