"""Pages by a cursor: stable while rows are added, and as fast at a million rows as at ten."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination

from workspaces.http.errors import CursorInvalid


class NewestFirst(CursorPagination):
    """`?limit=` of 50, at most 200, and `?cursor=` as `next` and `previous` give it.

    Ids grow with time, so the newest come first and what is added later never shifts a page.
    """

    ordering = "-id"
    page_size = 50
    max_page_size = 200
    page_size_query_param = "limit"

    def decode_cursor(self, request: Any) -> Any:
        try:
            return super().decode_cursor(request)
        except NotFound:
            raise CursorInvalid from None

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, TypeError):
            raise CursorInvalid from None
