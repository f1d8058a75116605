"""Pages of a list by the last row seen, at a cost that no number of rows changes.

A page is cut from rows that one index gives in their order. Conditions that no index answers are
asked of a bounded number of these rows, so a page may hold fewer rows than its limit, even none:
the list ends where `next` is null. What is added meanwhile never shifts a page.
*Hole:* a row that commits late, under an id from before, is not seen by who has passed that place.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from django.db.models import Case, F, Model, Q, QuerySet, Value, When
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

from workspaces.http.errors import CursorInvalid, InputInvalid
from workspaces.models.newest import NewestFirst

if TYPE_CHECKING:
    from rest_framework.request import Request

Row = TypeVar("Row", bound=Model)

LIMIT, MOST = 50, 200
WINDOW = 2000
"""Rows of the index that one page looks at, where a condition has no index."""
PARAMETERS = ("limit", "cursor")
LARGEST = 2**63 - 1


def number(text: str) -> int:
    """The place of a row whose order is a number. Raises ValueError."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > LARGEST:
        raise ValueError("not the number of a row")
    return int(text)


@dataclass(frozen=True)
class Selection:
    """Which rows a list has, and what finds them.

    `led` is answered by one index in the order of the list; `also` is asked of what that gives.
    `low` and `high` bound the order itself, from and up to.
    """

    led: Q
    also: Q | None = None
    low: Any = None
    high: Any = None


@dataclass(frozen=True)
class Place:
    """Where a page begins: rows whose order compares so (`lt`, `lte`, `gt`, `gte`) to a value."""

    comparison: str
    value: Any

    @property
    def text(self) -> str:
        written = f"{self.comparison} {self.value}".encode()
        return base64.urlsafe_b64encode(written).decode().rstrip("=")


class Keyset(Generic[Row]):
    """The page of one request: `?limit=` of 50, at most 200, and `?cursor=` as the links give it.

    `order` is a unique field that never changes, `-` before it for the newest first, which takes
    an index that ends in `NewestFirst`; `value` reads one of its values from a cursor. Raises
    InputInvalid for a wrong limit, CursorInvalid for a cursor that nobody gave.
    """

    def __init__(
        self, request: Request, order: str = "-id", value: Callable[[str], Any] = uuid.UUID
    ) -> None:
        self._request = request
        self._field = order.removeprefix("-")
        self._on, self._back = ("lt", "gt") if order.startswith("-") else ("gt", "lt")
        self._limit = _limit_in(request)
        self._place = self._place_in(request.query_params.get("cursor"), value)
        self._next: Place | None = None
        self._previous: Place | None = None

    def page(self, rows: QuerySet[Row], wanted: Selection) -> list[Row]:
        """The rows of this page. One query; two where something is asked that no index answers."""
        ordered = self._ordered(rows.filter(wanted.led), wanted)
        if wanted.also is None:
            found, edge = self._taken(ordered, wanted)
        else:
            found, edge = self._looked_for(rows, ordered, wanted)
        if self._backwards:
            found.reverse()
        self._set_links([self._of(row) for row in found], edge)
        return found

    def all_from_here(self, rows: QuerySet[Row], wanted: Selection) -> QuerySet[Row]:
        """Every row from where the page begins, in the order of the list: for a stream."""
        matching = (
            rows.filter(wanted.led) if wanted.also is None else rows.filter(wanted.led, wanted.also)
        )
        if wanted.low is not None:
            matching = matching.filter(**{f"{self._field}__gte": wanted.low})
        return self._ordered(matching, wanted)

    def url_after(self, value: Any) -> str:
        """Where the list goes on after the row of this value."""
        return str(self._url(Place(self._on, value)))

    def answer(self, results: Sequence[Any]) -> Response:
        """The page as it is sent."""
        links = {"next": self._url(self._next), "previous": self._url(self._previous)}
        return Response({**links, "results": list(results)})

    @property
    def _backwards(self) -> bool:
        return self._place is not None and self._place.comparison.startswith(self._back)

    def _ordered(self, rows: QuerySet[Row], wanted: Selection) -> QuerySet[Row]:
        """From where the page begins on; its other end is not told to the database.

        Of a range the planner would read all, by the primary key and past all workspaces.
        """
        start = self._place
        if start is None and wanted.high is not None and self._on == "lt":
            start = Place("lt", wanted.high)
        if start is not None:
            rows = rows.filter(**{f"{self._field}__{start.comparison}": start.value})
        if self._on == "gt":
            return rows.order_by(f"-{self._field}" if self._backwards else self._field)
        rising = F(self._field).asc(nulls_first=True)
        return rows.order_by(rising if self._backwards else NewestFirst(self._field))

    def _taken(self, ordered: QuerySet[Row], wanted: Selection) -> tuple[list[Row], Any]:
        """The rows of the page, and the last of them if there are more."""
        found = list(ordered[: self._limit + 1])
        within = [row for row in found if _is_within(self._of(row), wanted)]
        page = within[: self._limit]
        return page, self._of(page[-1]) if len(within) > self._limit else None

    def _looked_for(
        self, rows: QuerySet[Row], ordered: QuerySet[Row], wanted: Selection
    ) -> tuple[list[Row], Any]:
        """The rows that match in the window, and where to go on; None at the end of the list."""
        fits = ordered.annotate(fits=Case(When(wanted.also, then=Value(1)), default=Value(0)))
        window = list(fits.values_list("pk", self._field, "fits")[:WINDOW])
        within = [row for row in window if _is_within(row[1], wanted)]
        hits = [(pk, value) for pk, value, hit in within if hit]
        edge = None
        if len(hits) > self._limit:
            edge = hits[self._limit - 1][1]
        elif len(within) == WINDOW:
            edge = within[-1][1]
        # By id alone: with the conditions again the planner might walk another index.
        chosen = rows.in_bulk([pk for pk, _value in hits[: self._limit]])
        return [chosen[pk] for pk, _value in hits if pk in chosen], edge

    def _set_links(self, values: Sequence[Any], edge: Any) -> None:
        """Say where the pages before and after this one begin."""
        place, last, first = self._place, values[-1:], values[:1]
        if self._backwards and place is not None:
            self._previous = None if edge is None else Place(self._back, edge)
            here = Place(_turned(place.comparison), place.value)
            self._next = Place(self._on, last[0]) if last else here
            return
        self._next = None if edge is None else Place(self._on, edge)
        if place is not None:
            here = Place(_turned(place.comparison), place.value)
            self._previous = Place(self._back, first[0]) if first else here

    def _of(self, row: Row) -> Any:
        return getattr(row, self._field)

    def _place_in(self, text: str | None, value: Callable[[str], Any]) -> Place | None:
        if text is None:
            return None
        try:
            written = base64.urlsafe_b64decode(text.encode("ascii") + b"===").decode("ascii")
            comparison, _, rest = written.partition(" ")
            if comparison not in ("lt", "lte", "gt", "gte") or "\0" in rest:
                raise CursorInvalid
            return Place(comparison, value(rest))
        except ValueError:
            raise CursorInvalid from None

    def _url(self, place: Place | None) -> str | None:
        if place is None:
            return None
        url = self._request.build_absolute_uri()
        return replace_query_param(remove_query_param(url, "cursor"), "cursor", quote(place.text))


def _is_within(value: Any, wanted: Selection) -> bool:
    low, high = wanted.low, wanted.high
    return (low is None or value >= low) and (high is None or value < high)


def _turned(comparison: str) -> str:
    """What the rows on the other side of the same place compare like."""
    return {"lt": "gte", "lte": "gt", "gt": "lte", "gte": "lt"}[comparison]


def _limit_in(request: Request) -> int:
    text = request.query_params.get("limit")
    if text is None:
        return LIMIT
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or not 1 <= int(text) <= MOST:
        raise InputInvalid({"limit": [f"A number from 1 to {MOST}."]})
    return int(text)
