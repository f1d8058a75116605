"""What is done to one job besides retrying it: cancel, resolve, reconcile."""

from __future__ import annotations

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.answers import JobLine
from jobs.api.bodies import CancelJob, ReconcileJob, ResolveJob
from jobs.api.views import JobView
from jobs.recovery.cancel import cancel
from jobs.recovery.reconcile import reconcile
from jobs.recovery.resolve import resolve
from jobs.shown import summary
from jobs.states import Verb
from workspaces.http.idempotency import idempotent


class Cancel(JobView):
    """`POST` cancels a queued job at once; a running one stops at its next step boundary."""

    verb = Verb.CANCEL
    takes = {"POST": CancelJob}
    gives = {"POST": {200: JobLine, 202: JobLine}}

    @idempotent
    def post(self, request: Request, slug: str, job_id: uuid.UUID) -> Response:
        """200 with the job as it ended, or 202 where it is still running and was asked to stop."""
        said = CancelJob.given(request)
        job = cancel(
            self.job.pk, actor=self.actor, reason=said["reason"], request_id=self.request_id
        )
        return Response(summary(job, slug), 200 if job.final else 202)


class Resolve(JobView):
    """`POST` closes a dead letter without running it."""

    verb = Verb.RESOLVE
    takes = {"POST": ResolveJob}
    gives = {"POST": {200: JobLine}}

    @idempotent
    def post(self, request: Request, slug: str, job_id: uuid.UUID) -> Response:
        """The job, with the moment from which it is no dead letter any more."""
        said = ResolveJob.given(request)
        job = resolve(
            self.job.pk, actor=self.actor, reason=said["reason"], request_id=self.request_id
        )
        return Response(summary(job, slug))


class Reconcile(JobView):
    """`POST` records what was observed about an open step. Nothing is sent to its provider."""

    verb = Verb.RECONCILE
    takes = {"POST": ReconcileJob}
    gives = {"POST": {200: JobLine}}

    @idempotent
    def post(self, request: Request, slug: str, job_id: uuid.UUID) -> Response:
        """The job. Retry it next: a step that happened is kept, one that did not runs."""
        said = ReconcileJob.given(request)
        job = reconcile(
            self.job.pk,
            step=said["step"],
            outcome=said["outcome"],
            output=said.get("output"),
            actor=self.actor,
            reason=said["reason"],
            request_id=self.request_id,
        )
        return Response(summary(job, slug))
