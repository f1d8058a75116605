"""The newest rows of many workspaces, read from an index that has each workspace's in order.

Asked of all at once, PostgreSQL would sort every row that fits. So a few of each workspace are
read, then more of those alone whose rows may still be among the newest: a round reads at most
twice what is wanted and one row for each workspace, and rounds get few quickly.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db import connection, transaction
from django.db.models import OuterRef, Q
from django.db.models.functions import JSONObject

from jobs.models import Job
from workspaces.models import Workspace
from workspaces.models.newest import NewestFirst

ASKED = ("kind", "state", "cause", "wait_reason")
_IN_ORDER = "SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off"


@dataclass(frozen=True)
class Row:
    """As much of a job as decides whether, and where, it is in a list."""

    pk: uuid.UUID
    finished_at: datetime | None
    asked: dict[str, str]

    @property
    def place(self) -> tuple[Any, uuid.UUID]:
        """Where it stands among dead letters."""
        return self.finished_at, self.pk


def merged(places: Sequence[int] | None, led: Q, wanted: int, *, letters: bool) -> list[Row]:
    """The ``wanted`` newest jobs of these workspaces (None: of all), newest first."""
    open_places, each = places, 0
    found: dict[int, list[Row]] = {}
    first: list[Row] = []
    while open_places is None or open_places:
        count = Workspace.objects.count() if open_places is None else len(open_places)
        each = min(wanted, max(2 * each, -(-wanted // max(1, count))))
        read = _some_of_each(open_places, led, each, letters=letters)
        found |= read
        first = _first(found.values(), wanted, letters=letters)
        full = [place for place, rows in read.items() if len(rows) == each < wanted]
        kept = {row.pk for row in first}
        open_places = [place for place in full if found[place][-1].pk in kept]
    return first


def _first(groups: Iterable[list[Row]], wanted: int, *, letters: bool) -> list[Row]:
    rows = [row for group in groups for row in group]
    rows.sort(key=lambda row: row.place if letters else row.pk, reverse=True)
    return rows[:wanted]


def _some_of_each(
    places: Sequence[int] | None, led: Q, each: int, *, letters: bool
) -> dict[int, list[Row]]:
    """The newest so many of each workspace that has any, in one query.

    By its averages the planner cannot know that one workspace has nearly all rows: it would
    rather read and sort "the few" of each. So sorting is put last for this one read.
    """
    order = ("-finished_at", "-id") if letters else (NewestFirst(),)
    jobs = Job.objects.filter(led, workspace=OuterRef("pk")).order_by(*order)
    told = JSONObject(id="id", finished_at="finished_at", **{name: name for name in ASKED})
    read = ArraySubquery(jobs.values(told=told)[:each])
    among = Workspace.objects.all() if places is None else Workspace.objects.filter(pk__in=places)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_IN_ORDER)
        found = list(among.order_by().annotate(read=read).values_list("pk", "read"))
    return {place: [_row(one) for one in rows] for place, rows in found if rows}


def _row(told: dict[str, Any]) -> Row:
    ended = told["finished_at"]
    at = datetime.fromisoformat(ended) if ended else None
    return Row(uuid.UUID(told["id"]), at, {name: told[name] for name in ASKED})
