"""The audit trail of a workspace: who did what, to which object, why, and what was refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request

from workspaces.api.answers import AuditLine, AuditPage, told
from workspaces.api.filters import AuditFilters, selected
from workspaces.http.keyset import Keyset, Selection, number
from workspaces.http.views import WorkspaceView
from workspaces.models import AuditEvent

EXPORTED = 10_000
CHUNK = 500
COLUMNS = tuple(AuditLine().fields)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class CsvRenderer(BaseRenderer):
    """Lets `Accept: text/csv` pass; the view streams by itself."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"


class AuditTrail(WorkspaceView):
    """`GET` lists, newest first; with `?format=csv` as a table."""

    rights = {"GET": "audit.view"}
    filters = AuditFilters
    gives = {"GET": {(200, "application/json"): AuditPage, (200, "text/csv"): OpenApiTypes.STR}}
    renderer_classes = (JSONRenderer, CsvRenderer)  # type: ignore[assignment]

    def get(self, request: Request, slug: str) -> HttpResponseBase:
        """Audit events of the workspace, a page at a time, or many as CSV."""
        asked = AuditFilters.asked(request)
        form = asked.pop("format", request.accepted_renderer.format)
        pages = Keyset[AuditEvent](request, value=number)
        wanted = selected(self.workspace, asked)
        if form == "csv":
            return _exported(pages, wanted, slug)
        return pages.answer([told(event) for event in pages.page(AuditEvent.objects.all(), wanted)])


def _exported(pages: Keyset[AuditEvent], wanted: Selection, slug: str) -> StreamingHttpResponse:
    """As many rows as one file may have, read while they are sent.

    *Hole:* if the connection to the database is lost meanwhile the file ends early; the response
    is then cut off, not ended.
    """
    rows = pages.all_from_here(AuditEvent.objects.all(), wanted)
    edge = list(rows.values_list("pk", flat=True)[EXPORTED - 1 : EXPORTED + 1])
    table = _lines(rows[:EXPORTED].iterator(CHUNK))
    response = StreamingHttpResponse(table, content_type="text/csv; charset=utf-8; header=present")
    response["Content-Disposition"] = f'attachment; filename="audit-{slug}.csv"'
    if len(edge) > 1:
        response["Link"] = f'<{pages.url_after(edge[0])}>; rel="next"'
    return response


class _Echo:
    """Hands back what a csv writer writes."""

    def write(self, line: str) -> str:
        return line


def _lines(events: Iterable[AuditEvent]) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow(COLUMNS)
    for event in events:
        row = told(event)
        yield writer.writerow([cell(row[column]) for column in COLUMNS])


def cell(value: Any) -> str:
    """A value as text that no spreadsheet takes for a formula."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text
