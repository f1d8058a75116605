"""Retrying a job: what would happen, and doing it."""

from __future__ import annotations

import uuid

from django_filters import ChoiceFilter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.answers import JobMade, PlanShown
from jobs.api.bodies import MODES, RetryJob
from jobs.api.views import JobView, url_of
from jobs.models import Job
from jobs.recovery.preflight import preflight
from jobs.recovery.retry import retry
from jobs.shown import planned, summary
from jobs.states import Verb
from workspaces.http.filtering import StrictFilters
from workspaces.http.idempotency import idempotent


class RetryQuery(StrictFilters):
    """Which of the two is planned; a resume, unless told otherwise."""

    mode = ChoiceFilter(choices=[(mode, mode) for mode in MODES])
    parameters = ()

    class Meta:
        model = Job
        fields: tuple[str, ...] = ()


class Retry(JobView):
    """`GET` tells what a retry would do; `POST` does it."""

    filters = RetryQuery
    takes = {"POST": RetryJob}
    gives = {"GET": {200: PlanShown}, "POST": {202: JobMade, 200: JobMade}}

    def verb_in(self, request: Request) -> str | None:
        mode = request.data.get("mode", "resume") if isinstance(request.data, dict) else None
        return mode if mode in MODES else None

    def get(self, request: Request, slug: str, job_id: uuid.UUID) -> Response:
        """The preflight: a word for each step, checks, and a digest to send with the POST."""
        mode = RetryQuery.asked(request).get("mode", Verb.RESUME)
        return Response(planned(preflight(self.job, mode, self.actor)))

    @idempotent
    def post(self, request: Request, slug: str, job_id: uuid.UUID) -> Response:
        """Make the successor: 202, or 200 when one of that mode exists already."""
        said = RetryJob.given(request)
        successor = retry(
            self.job.pk,
            mode=said["mode"],
            actor=self.actor,
            reason=said["reason"],
            digest=said.get("digest"),
            request_id=self.request_id,
        )
        self.job_id = successor.pk
        body = {"created": successor.created, **summary(successor, slug)}
        location = request.build_absolute_uri(url_of(successor.pk, slug))
        return Response(body, 202 if successor.created else 200, headers={"Location": location})
