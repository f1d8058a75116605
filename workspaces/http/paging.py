"""Pages by a cursor: stable while rows are added, and as fast at a million rows as at ten."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination

from workspaces.http.errors import CursorInvalid, InputInvalid

_NOWHERE = Cursor(offset=0, reverse=False, position=None)  # what DRF reads in any noise


class NewestFirst(CursorPagination):
    """`?limit=` of 50, at most 200, and `?cursor=` as `next` and `previous` give it.

    Ids grow with time, so the newest come first and what is added later never shifts a page.
    Raises InputInvalid for another limit, CursorInvalid for a cursor that nobody gave.
    """

    ordering = "-id"
    page_size = 50
    max_page_size = 200
    page_size_query_param = "limit"
    cursor_query_param = "cursor"
    _id: Any = None

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        self._id = queryset.model._meta.pk
        return super().paginate_queryset(queryset, request, view)

    def get_page_size(self, request: Any) -> int:
        text = request.query_params.get(self.page_size_query_param)
        if text is None:
            return self.page_size
        if (
            not (text.isascii() and text.isdecimal())
            or not 1 <= int(text[:9]) <= self.max_page_size
        ):
            raise InputInvalid({"limit": [f"A number from 1 to {self.max_page_size}."]})
        return int(text)

    def decode_cursor(self, request: Any) -> Cursor | None:
        """The place in the list; its id must be one, or the database would refuse it later."""
        try:
            cursor: Cursor | None = super().decode_cursor(request)
            if cursor is not None and cursor.position is not None:
                self._id.to_python(cursor.position)
        except (NotFound, ValidationError):
            raise CursorInvalid from None
        if cursor == _NOWHERE:
            raise CursorInvalid
        return cursor
