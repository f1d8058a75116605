"""The list of jobs, a new job, and one job."""

from __future__ import annotations

import uuid
from hashlib import sha256
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from jobs import registry
from jobs.api.answers import JobMade, JobPage, JobShown
from jobs.api.bodies import NewJob
from jobs.api.filters import JobFilters, selected
from jobs.api.views import JobView
from jobs.enqueue import KEY_LIMIT, enqueue
from jobs.errors import JobsError
from jobs.models import Job
from jobs.shown import shown, summary
from workspaces.http.idempotency import idempotent
from workspaces.http.keyset import Keyset
from workspaces.http.views import WorkspaceView

STEPS_SHOWN = 200


class KindNotPublic(JobsError):
    """The kind is not open to the API."""

    code = "kind_not_public"
    status = 422


class JobList(WorkspaceView):
    """`GET` lists, newest first; `POST` enqueues."""

    rights = {"GET": "jobs.view", "POST": "jobs.enqueue"}
    filters = JobFilters
    takes = {"POST": NewJob}
    gives = {"GET": {200: JobPage}, "POST": {201: JobMade, 200: JobMade}}

    def get(self, request: Request, slug: str) -> Response:
        """Jobs of the workspace, a page at a time."""
        pages = Keyset[Job](request)
        jobs = Job.objects.defer("params", "result", "resolution")
        page = pages.page(jobs, selected(self.workspace, JobFilters.asked(request)))
        return pages.answer([summary(job, slug) for job in page])

    @idempotent
    def post(self, request: Request, slug: str) -> Response:
        """Enqueue one job: 201, or 200 with `created: false` when the intent is known already."""
        job = self._enqueued(NewJob.given(request))
        self.job_id = job.pk
        body = {"created": job.created, **summary(job, slug)}
        location = f"{request.scheme}://{request.get_host()}{request.path}{job.pk}/"
        return Response(body, 201 if job.created else 200, headers={"Location": location})

    def _enqueued(self, asked: dict[str, Any]) -> Job:
        spec = registry.find(asked["kind"])
        if spec is not None and not spec.api:
            raise KindNotPublic(
                f"Nothing was enqueued: jobs of the kind {spec.name} are not made over HTTP."
            )
        key, reserved = self._key(asked.get("key"))
        return enqueue(
            asked["kind"],
            workspace=self.workspace,
            key=key,
            params=asked["params"],
            eta=asked.get("eta"),
            actor=self.actor,
            request_id=self.request_id,
            traceparent=self.traceparent,
            reserved=reserved,
        )

    def _key(self, given: str | None) -> tuple[str, bool]:
        """The job's key, and whether it has the prefix that is ours."""
        if given is not None:
            return given, False
        key = f"http:{self.actor.id}:{self.key or uuid.uuid4()}"
        if len(key) <= KEY_LIMIT:
            return key, True
        # The longest of Idempotency-Keys have no room beside whose they are.
        return f"http:{self.actor.id}:sha256:{sha256(str(self.key).encode()).hexdigest()}", True


class JobDetail(JobView):
    """One job with its attempts and its first 200 steps."""

    gives = {"GET": {200: JobShown}}

    def get(self, request: Request, slug: str, job_id: uuid.UUID) -> Response:
        """The job as it is now."""
        return Response(shown(self.job, STEPS_SHOWN))
