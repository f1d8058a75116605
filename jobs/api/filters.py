"""Which jobs a list shows, and which index finds them.

One condition leads: an index gives its jobs in the order of the list. The others are asked of the
jobs it gives, of a bounded number a page. So a page costs the same however many jobs there are.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, Subquery, Value
from django.db.models.lookups import Exact
from django_filters import CharFilter, ChoiceFilter, UUIDFilter

from jobs import registry
from jobs.models import Attempt, Job
from jobs.models import Step as StepRow
from jobs.models.ids import first_id_of
from jobs.models.job import DEAD_LETTER
from jobs.models.step import OPEN
from jobs.states import Cause, State, WaitReason
from workspaces.http.filtering import Moment, OnlyTrue, StrictFilters
from workspaces.http.keyset import Selection
from workspaces.models import Workspace

_MOMENTS = {"created": "created_at", "finished": "finished_at", "run_at": "run_at"}
CLOCKS = timedelta(hours=1)
"""How far the clock that made an id may be from the database's, and how long before its row."""


class JobFilters(StrictFilters):
    """All must hold. `*_after` and `*_before` include their moment."""

    state = ChoiceFilter(choices=[(s.value, s.value) for s in State])
    cause = ChoiceFilter(choices=[(c.value, c.value) for c in Cause])
    wait_reason = ChoiceFilter(choices=[(w.value, w.value) for w in WaitReason])
    kind = CharFilter(max_length=100, strip=False)
    key = CharFilter(max_length=255, strip=False)
    request_id = CharFilter(max_length=128, strip=False)
    fingerprint = CharFilter(max_length=32, strip=False)
    root_id = UUIDFilter()
    dead_letter = OnlyTrue()
    open_step = OnlyTrue()
    created_after = Moment()
    created_before = Moment()
    finished_after = Moment()
    finished_before = Moment()
    run_at_after = Moment()
    run_at_before = Moment()

    class Meta:
        model = Job
        fields: tuple[str, ...] = ()


def selected(workspace: Workspace, asked: dict[str, Any]) -> Selection:
    """The jobs of a workspace that fit all that is asked."""
    given = {**asked, **_implied(asked)}
    led, answered = _leader(workspace, given)
    also = Q()
    for name in given.keys() - answered:
        also &= _CONDITIONS[name](given[name])
    return Selection(Q(led, workspace=workspace), also or None, **_bounds(given))


def _implied(asked: dict[str, Any]) -> dict[str, str]:
    """The state that the other conditions speak of, so that its index can lead."""
    implied = {}
    if asked.keys() & {"cause", "dead_letter", "open_step"}:
        implied["state"] = State.DEAD.value
    elif "wait_reason" in asked:
        implied["state"] = State.QUEUED.value
    return {} if "state" in asked else implied


def _leader(workspace: Workspace, given: dict[str, Any]) -> tuple[Q, set[str]]:
    """The condition that an index answers best, and the names of all that it answers."""
    state = given.get("state")
    if "root_id" in given:
        return Q(root_id=given["root_id"]), {"root_id"}
    if "key" in given:
        return _chains(workspace, given), {"key", "kind"}
    if "request_id" in given:
        return Q(request_id=given["request_id"]), {"request_id"}
    if given.get("cause") == Cause.UNCERTAIN:
        return Q(cause=Cause.UNCERTAIN), {"cause"}
    if "dead_letter" in given:
        return DEAD_LETTER, {"dead_letter", "state"} if state == State.DEAD else {"dead_letter"}
    if state is not None and state != State.SUCCEEDED:
        return Q(state=state), {"state"}
    return Q(), set()


def _chains(workspace: Workspace, given: dict[str, Any]) -> Q:
    """The jobs under a key, by the index that makes it unique; of kinds that are known here."""
    kinds = [given["kind"]] if "kind" in given else list(registry.KINDS)
    first = Job.objects.filter(
        workspace=workspace, kind__in=kinds, key=given["key"], retry_of__isnull=True
    )
    return Q(root_id__in=first.values("pk"))


def _bounds(given: dict[str, Any]) -> dict[str, uuid.UUID]:
    """Ids hold the moment they were made at: a range of time is nearly a range of ids."""
    bounds = {}
    if "created_after" in given:
        bounds["low"] = first_id_of(given["created_after"] - CLOCKS)
    before = [given[name] for name in ("created_before", "finished_before") if name in given]
    if before:
        bounds["high"] = first_id_of(min(before) + CLOCKS)
    return bounds


def _newest_fingerprint(fingerprint: str) -> Q:
    attempts = Attempt.objects.filter(job=OuterRef("pk")).order_by("-number")
    return Q(Exact(Subquery(attempts.values("fingerprint")[:1]), Value(fingerprint)))


def _has_open_step(_asked: str) -> Q:
    return Q(Exists(StepRow.objects.filter(OPEN, job=OuterRef("pk"))))


def _equal(field: str) -> Callable[[Any], Q]:
    return lambda value: Q(**{field: value})


_CONDITIONS: dict[str, Callable[[Any], Q]] = {
    **{
        name: _equal(name)
        for name in ("state", "cause", "wait_reason", "kind", "key", "request_id")
    },
    "fingerprint": _newest_fingerprint,
    "dead_letter": lambda _asked: DEAD_LETTER,
    "open_step": _has_open_step,
    **{f"{of}_after": _equal(f"{field}__gte") for of, field in _MOMENTS.items()},
    **{f"{of}_before": _equal(f"{field}__lte") for of, field in _MOMENTS.items()},
}
