"""The console's list of the audit trail: the newest, by what became of the deed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList

from workspaces.audit import DONE
from workspaces.models.newest import NewestFirst

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

MOST = 1_000
"""Rows of the list, on as many pages as that makes."""
WINDOW = 5_000
"""Newest events that are looked at for one result."""
REFUSED = "refused"


class ResultFilter(admin.SimpleListFilter):
    """What was done, or what was refused: for want of a right, or by the state of things."""

    title = parameter_name = "result"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(DONE, "done"), (REFUSED, "refused")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == REFUSED:
            return queryset.exclude(result=DONE)
        return queryset.filter(result=DONE) if self.value() == DONE else queryset


class NewestEvents(ChangeList):
    """The newest events that fit; nothing is counted beyond them. ``cut``: there may be more.

    *Hole:* who reads some of many workspaces, without choosing one, passes the newer events of
    the others.
    """

    cut = False

    def get_queryset(self, request: HttpRequest, *more: Any, **named: Any) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request, *more, **named)
        if self.query:  # a search looks up exact ids
            return rows
        among: QuerySet[Any] = self.root_queryset
        slug, asked = request.GET.get("workspace", ""), request.GET.get("result", "")
        if slug:
            among = among.filter(workspace__slug=slug).order_by(NewestFirst())
        else:
            among = among.order_by("-id")
        limit = WINDOW if asked else MOST
        window = list(among.values_list("pk", "result")[: limit + 1])
        fit = [
            pk for pk, result in window[:limit] if not asked or (result == DONE) is (asked == DONE)
        ]
        self.cut = len(window) > limit or len(fit) > MOST
        return rows.filter(pk__in=fit[:MOST])
