"""Which audit events a list shows, and which index finds them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django.db.models import Q
from django_filters import CharFilter, ChoiceFilter

from workspaces.http.filtering import Moment, StrictFilters
from workspaces.http.keyset import PARAMETERS, Selection
from workspaces.models import AuditEvent, Workspace

CLOCKS = timedelta(hours=1)
"""How far the clocks that wrote the trail may be apart, and a commit may come late."""

_LEADING = ("request_id", "object_id", "actor")
"""Found by an index of their own, the rarest first; all else is looked for in what that gives."""


class NoFilters(StrictFilters):
    """A list that is not filtered."""

    class Meta:
        model = Workspace
        fields: tuple[str, ...] = ()


class AuditFilters(StrictFilters):
    """All must hold. `created_after` and `created_before` include their moment."""

    parameters: ClassVar[tuple[str, ...]] = PARAMETERS
    actor = CharFilter(max_length=200, strip=False, help_text="Such as `service:3`.")
    action = CharFilter(max_length=100, strip=False, help_text="Such as `job.resume`.")
    object_type = CharFilter(max_length=100, strip=False)
    object_id = CharFilter(max_length=200, strip=False)
    result = CharFilter(max_length=100, strip=False, help_text="`done`, or a code.")
    request_id = CharFilter(max_length=200, strip=False)
    created_after = Moment()
    created_before = Moment()
    format = ChoiceFilter(
        choices=[("json", "json"), ("csv", "csv")],
        help_text="`csv` streams up to 10,000 rows; a `Link` header leads to the next.",
    )

    class Meta:
        model = AuditEvent
        fields: tuple[str, ...] = ()


def selected(workspace: Workspace, asked: dict[str, Any]) -> Selection:
    """The audit events of a workspace that fit all that is asked."""
    leader = next((name for name in _LEADING if name in asked), None)
    led, also = Q(workspace=workspace), Q()
    for name, value in asked.items():
        condition = Q(**{_FIELDS.get(name, name): value})
        if name == leader:
            led &= condition
        else:
            also &= condition
    return Selection(led, also or None, **_bounds(workspace, asked))


_FIELDS = {"created_after": "created_at__gte", "created_before": "created_at__lte"}


def _bounds(workspace: Workspace, asked: dict[str, Any]) -> dict[str, int]:
    """Ids grow nearly with time: a range of time is nearly a range of ids."""
    events = AuditEvent.objects.filter(workspace=workspace)
    bounds = {}
    if "created_after" in asked:
        later = events.filter(created_at__gte=asked["created_after"] - CLOCKS)
        first = later.order_by("created_at").values_list("pk", flat=True).first()
        bounds["low"] = first if first is not None else 2**62
    if "created_before" in asked:
        earlier = events.filter(created_at__lte=asked["created_before"] + CLOCKS)
        last = earlier.order_by("-created_at").values_list("pk", flat=True).first()
        bounds["high"] = last + 1 if last is not None else 0
    return bounds
