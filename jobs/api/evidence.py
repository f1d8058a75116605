"""The incident bundle over HTTP: JSON for programs, Markdown for people."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from django_filters import ChoiceFilter
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.evidence_answers import EvidenceBundle
from jobs.api.views import JobView
from jobs.models import Job
from jobs.recovery.incident import bundle, page
from workspaces.http.filtering import StrictFilters

MARKDOWN = "text/markdown"


class EvidenceQuery(StrictFilters):
    """In which form; without it the `Accept` header says so."""

    parameters = ()
    format = ChoiceFilter(choices=[("json", "json"), ("md", "md")])

    class Meta:
        model = Job
        fields: tuple[str, ...] = ()


class MarkdownRenderer(BaseRenderer):
    """Lets `Accept: text/markdown` be asked for; the view writes it."""

    media_type = MARKDOWN
    format = "md"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> Any:
        return JSONRenderer().render(data)


class Evidence(JobView):
    """`GET` gives all that is known of a job that came to grief, secrets hidden."""

    renderer_classes = (JSONRenderer, MarkdownRenderer)  # type: ignore[assignment]
    filters = EvidenceQuery
    gives = {"GET": {(200, "application/json"): EvidenceBundle, (200, MARKDOWN): str}}

    def get(self, request: Request, slug: str, job_id: uuid.UUID) -> HttpResponse:
        """The six steps of a recovery filled in, and the facts behind them.

        What was reached of provider, agent and repository, what is in doubt, and what a resume
        or a restart would do. Markdown by `format=md` or `Accept: text/markdown`. The audit
        trail is in it for who has the right `audit.view`.
        """
        form = EvidenceQuery.asked(request).get("format")
        if form == "md" or (form is None and request.accepted_renderer.format == "md"):
            text = page(self.job, self.actor)
            return HttpResponse(text, content_type=f"{MARKDOWN}; charset=utf-8")
        return Response(bundle(self.job, self.actor), content_type="application/json")
