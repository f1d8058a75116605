"""Filters of the console's lists. Each is a link with a query string, so that it can be shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from workspaces.admin.reader import reader
from workspaces.visibility import visible_workspaces

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

LONGEST = 50
"""Workspaces offered by name. Others are reached by ``?workspace=slug``."""


class WorkspaceFilter(admin.SimpleListFilter):
    """Rows of one workspace, by slug. Offers only what the reader may know of."""

    title = "workspace"
    parameter_name = "workspace"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        slugs = visible_workspaces(reader(request)).values_list("slug", flat=True)[:LONGEST]
        return [(slug, slug) for slug in slugs]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        slug = self.value()
        return queryset.filter(workspace__slug=slug) if slug else queryset
