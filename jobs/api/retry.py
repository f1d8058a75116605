"""Retrying a job: what would happen, and doing it."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.views import JobView, url_of
from jobs.recovery.preflight import preflight
from jobs.recovery.retry import retry
from jobs.shown import planned, summary
from workspaces.http.errors import InputInvalid
from workspaces.http.idempotency import idempotent

MODES = ("resume", "restart")


class Asked(serializers.Serializer):
    """Why, how, and the digest of the plan that was read."""

    reason = serializers.CharField(max_length=2000)
    mode = serializers.ChoiceField(choices=MODES, default="resume")
    digest = serializers.CharField(max_length=64, required=False)


class Retry(JobView):
    """`GET` tells what a retry would do; `POST` does it."""

    def verb_in(self, request: Request) -> str | None:
        mode = request.data.get("mode", "resume") if isinstance(request.data, dict) else None
        return mode if mode in MODES else None

    def get(self, request: Request, slug: str, job_id: uuid.UUID) -> Response:
        """The preflight: a word for each step, checks, and a digest to send with the POST."""
        mode = request.query_params.get("mode", "resume")
        if mode not in MODES:
            raise InputInvalid({"mode": [f"One of {', '.join(MODES)}."]})
        return Response(planned(preflight(self.job, mode, self.actor)))

    @idempotent
    def post(self, request: Request, slug: str, job_id: uuid.UUID) -> Response:
        """Make the successor: 202, or 200 when one of that mode exists already."""
        asked = Asked(data=request.data)
        asked.is_valid(raise_exception=True)
        given: dict[str, Any] = asked.validated_data
        successor = retry(
            self.job.pk,
            mode=given["mode"],
            actor=self.actor,
            reason=given["reason"],
            digest=given.get("digest"),
            request_id=self.request_id,
        )
        self.job_id = successor.pk
        body = {"created": successor.created, **summary(successor, slug)}
        location = request.build_absolute_uri(url_of(successor.pk, slug))
        return Response(body, 202 if successor.created else 200, headers={"Location": location})
