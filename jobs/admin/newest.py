"""The rows of the console's lists: the newest that fit, at a cost that no number of jobs changes.

An index gives jobs in the order of the list, by workspace and state. What no index answers (kind,
why it waits, a success) is asked of the newest `WINDOW` of these, and a list ends after `MOST`.
Of several workspaces the newest are merged (`merging`). *Hole:* on SQLite they are sorted.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.admin.views.main import ChangeList
from django.db import connection
from django.db.models import Q

from jobs import registry
from jobs.admin.merging import ASKED, Row, merged
from jobs.models import Job
from jobs.models.job import DEAD_LETTER
from jobs.states import Cause, State
from workspaces.actors import Actor
from workspaces.admin.reader import reader
from workspaces.models import Workspace
from workspaces.permissions import TABLE
from workspaces.visibility import named, visible_workspaces

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

MOST = 1_000
"""Rows of a list, on as many pages as that makes."""
WINDOW = 5_000
_ASKED = {"state": "state", "cause": "cause", "wait": "wait_reason", "kind": "kind"}
_INDEXED = frozenset({State.QUEUED, State.RUNNING, State.DEAD, State.CANCELLED})


class NewestChangeList(ChangeList):
    """A list of jobs. ``cut`` says whether there may be more than it shows."""

    letters = False
    cut = False

    def get_queryset(self, request: HttpRequest, *more: Any, **named_more: Any) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request, *more, **named_more)
        if self.query:  # a search looks up exact ids
            return rows
        given = {field: request.GET.get(name, "") for name, field in _ASKED.items()}
        asked = {field: value for field, value in given.items() if value}
        places = _places(reader(request), request.GET.get("workspace", ""))
        found = newest(places, asked, letters=self.letters)
        self.cut = found.cut
        return rows.filter(pk__in=found.ids)


class NewestLetters(NewestChangeList):
    """The same of dead letters, the newest of which died last."""

    letters = True


@dataclass(frozen=True)
class Found:
    """Ids of jobs, newest first, and whether the search ended before the jobs did."""

    ids: list[uuid.UUID]
    cut: bool


def newest(places: Sequence[int] | None, asked: Mapping[str, str], *, letters: bool) -> Found:
    """The newest jobs that fit; ``places`` None means all workspaces."""
    led, answered = _leader(asked, letters=letters)
    limit = WINDOW if asked.keys() - answered else MOST
    jobs = Job.objects.filter(led)
    if places is not None:
        jobs = jobs.filter(workspace__in=places)
    if asked.get("state") == State.RUNNING:  # few, and an index has these alone
        rows = _sorted(jobs.order_by("-id"), limit + 1)
    elif places is None and not letters and not answered:  # the primary key has this order
        rows = _sorted(jobs.order_by("-id"), limit + 1)
    elif connection.vendor == "postgresql":
        rows = merged(places, led, limit + 1, letters=letters)
    else:
        order = ("-finished_at", "-id") if letters else ("-id",)
        rows = _sorted(jobs.order_by(*order), limit + 1)
    fit = [row for row in rows[:limit] if all(row.asked[name] == asked[name] for name in asked)]
    return Found([row.pk for row in fit[:MOST]], len(rows) > limit or len(fit) > MOST)


def _sorted(jobs: QuerySet[Job], wanted: int) -> list[Row]:
    rows = jobs.values_list("pk", "finished_at", *ASKED)[:wanted]
    return [Row(pk, at, dict(zip(ASKED, rest, strict=True))) for pk, at, *rest in rows]


def looked_up(term: str, actor: Actor) -> Q:
    """The jobs with exactly this id, key or request id, and the retries of a key's job.

    Of kinds that are known here, since the index by which a key is unique begins with these.
    """
    mine = Job.objects.filter(workspace__in=visible_workspaces(actor))
    first = mine.filter(kind__in=list(registry.KINDS), key=term, retry_of__isnull=True)
    roots = list(first.values_list("pk", flat=True)[:MOST])
    asked_for = mine.filter(request_id=term).exclude(request_id="")
    ids = list(asked_for.values_list("pk", flat=True)[:MOST])
    ids += Job.objects.filter(root_id__in=roots).values_list("pk", flat=True)[:MOST]
    try:
        ids.append(uuid.UUID(term))
    except ValueError:
        pass
    return Q(pk__in=ids)


def _leader(asked: Mapping[str, str], *, letters: bool) -> tuple[Q, set[str]]:
    """The condition that an index answers, and what of ``asked`` it answers."""
    if letters:
        return DEAD_LETTER, set()
    if asked.get("cause") == Cause.UNCERTAIN:
        return Q(cause=Cause.UNCERTAIN), {"cause"}
    implied = State.DEAD if "cause" in asked else State.QUEUED if "wait_reason" in asked else ""
    state = asked.get("state") or implied
    return (Q(state=state), {"state"}) if state in _INDEXED else (Q(), set())


def _places(actor: Actor, slug: str) -> list[int] | None:
    """The workspaces whose jobs the reader looks at; None for all."""
    mine = set(_mine(actor))
    if slug:
        chosen = named(slug, Workspace.objects.all())
        return [chosen.pk] if chosen and (None in mine or chosen.pk in mine) else []
    return None if None in mine else sorted(place for place in mine if place is not None)


def _mine(actor: Actor) -> Iterator[int | None]:
    for grant in actor.roles:
        if "jobs.view" in TABLE[grant.role]:
            yield grant.workspace_id
