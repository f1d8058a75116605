"""The saved views above both lists: links, so that a phone shows them before the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.urls import reverse

from jobs.states import Cause, State, WaitReason

if TYPE_CHECKING:
    from django.http import HttpRequest


@dataclass(frozen=True)
class SavedView:
    """A list with its filters."""

    name: str
    url: str
    here: bool = False


def _address(model: str, **filters: str) -> str:
    address = reverse(f"admin:jobs_{model}_changelist")
    return f"{address}?{urlencode(filters)}" if filters else address


def uncertain() -> str:
    return _address("deadletter", cause=Cause.UNCERTAIN.value)


def dead_letters() -> str:
    return _address("deadletter")


def retrying() -> str:
    return _address("job", state=State.QUEUED.value, wait=WaitReason.RETRY.value)


def in_state(state: State) -> str:
    return _address("job", state=state.value)


def saved_views(request: HttpRequest) -> tuple[SavedView, ...]:
    """The views, most urgent first; ``here`` marks the one being looked at."""
    links = (
        ("Uncertain", uncertain()),
        ("Dead letters", dead_letters()),
        ("Retrying", retrying()),
        ("Running", in_state(State.RUNNING)),
        ("Queued", in_state(State.QUEUED)),
        ("All jobs", _address("job")),
    )
    here = request.get_full_path()
    return tuple(SavedView(name, url, url == here) for name, url in links)
