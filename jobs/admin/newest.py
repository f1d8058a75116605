"""The rows of the console's lists: the newest that fit, at a cost that no number of jobs changes.

An index gives jobs in the order of the list, by workspace and state. What no index answers (kind,
why it waits, a success) is asked of the newest `WINDOW` of these, and a list ends after `MOST`.
*Hole:* where there are more than `PLACES` workspaces, a list of one state over all of them sorts
every job that is in it, and who reads more than `PLACES` of many sorts all of theirs. Choosing one
workspace bounds both.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.admin.views.main import ChangeList
from django.db.models import Q

from jobs import registry
from jobs.models import Job
from jobs.models.job import DEAD_LETTER
from jobs.states import Cause, State
from workspaces.actors import Actor
from workspaces.admin.reader import reader
from workspaces.models import Workspace
from workspaces.models.newest import NewestFirst
from workspaces.permissions import TABLE
from workspaces.visibility import named, visible_workspaces

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

MOST = 1_000
"""Rows of a list, on as many pages as that makes."""
WINDOW = 5_000
PLACES = 10
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
    """The newest jobs that fit; ``places`` None means all workspaces. A query for each place."""
    led, answered = _leader(asked, letters=letters)
    by_state = letters or bool(answered)
    if places is None and by_state:
        places = _everywhere()
    if places is None or len(places) > PLACES:
        among = [Q() if places is None else Q(workspace_id__in=places)]
    else:
        among = [Q(workspace_id=place) for place in places]
    limit = max(MOST, WINDOW // max(1, len(among))) if asked.keys() - answered else MOST
    candidates: list[dict[str, Any]] = []
    cut = False
    for where in among:
        plain = places is None and not by_state
        order = ("-finished_at", "-id") if letters else ("-id",) if plain else (NewestFirst(),)
        columns = ("pk", "finished_at", *_ASKED.values())
        rows = Job.objects.filter(where, led).order_by(*order).values(*columns)[: limit + 1]
        cut |= len(rows) > limit
        candidates += rows[:limit]
    fit = [row for row in candidates if all(row[name] == asked[name] for name in asked)]
    first = "finished_at" if letters else "pk"
    fit.sort(key=lambda row: (row[first], row["pk"]), reverse=True)
    return Found([row["pk"] for row in fit[:MOST]], cut or len(fit) > MOST)


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


def _everywhere() -> list[int] | None:
    """All workspaces, if they are few."""
    found = list(Workspace.objects.order_by("pk").values_list("pk", flat=True)[: PLACES + 1])
    return found if len(found) <= PLACES else None


def _mine(actor: Actor) -> Iterator[int | None]:
    for grant in actor.roles:
        if "jobs.view" in TABLE[grant.role]:
            yield grant.workspace_id
