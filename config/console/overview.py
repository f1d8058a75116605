"""The first page's numbers: what needs a person, worst first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Min, Q
from django.urls import reverse

from alerts.models import Alert, AlertState
from jobs.admin import views
from jobs.admin.marks import distance, length
from jobs.models import Job
from jobs.models.job import DEAD_LETTER
from jobs.states import Cause, State, WaitReason
from workspaces.actors import Actor
from workspaces.admin.reader import readable


@dataclass(frozen=True)
class Tile:
    """One number that leads to its list. ``tone`` is a class in console.css."""

    name: str
    number: int
    fact: str
    url: str
    tone: str


def needs_you(shown: Sequence[Tile]) -> bool:
    """Whether any of the tiles wants a person, not only a look."""
    return any(tile.number for tile in shown if tile.tone in ("doubt", "bad"))


def tiles(actor: Actor, now: datetime) -> tuple[Tile, ...]:
    """The numbers of the workspaces that the actor may see. Four queries, each on few rows."""
    return (*_dead(actor, now), _alerts(actor), *_queued(actor, now), _running(actor, now))


def _dead(actor: Actor, now: datetime) -> tuple[Tile, Tile]:
    found = Job.objects.filter(DEAD_LETTER, readable(actor, "jobs.view")).aggregate(
        all=Count("pk"),
        oldest=Min("finished_at"),
        uncertain=Count("pk", filter=Q(cause=Cause.UNCERTAIN)),
        first=Min("finished_at", filter=Q(cause=Cause.UNCERTAIN)),
    )
    return (
        Tile(
            "Uncertain",
            found["uncertain"],
            _oldest(found["first"], now) or "no step is in doubt",
            views.uncertain(),
            "doubt" if found["uncertain"] else "calm",
        ),
        Tile(
            "Dead letters",
            found["all"],
            _oldest(found["oldest"], now) or "none wait for you",
            views.dead_letters(),
            "bad" if found["all"] else "calm",
        ),
    )


def _alerts(actor: Actor) -> Tile:
    found = Alert.objects.filter(readable(actor, "alerts.view"), state=AlertState.OPEN).aggregate(
        open=Count("pk"), newest=Max("last_at")
    )
    query = f"?state__exact={AlertState.OPEN.value}"
    return Tile(
        "Open alerts",
        found["open"],
        f"newest at {found['newest']:%H:%M} UTC" if found["open"] else "none",
        reverse("admin:alerts_alert_changelist") + query,
        "bad" if found["open"] else "calm",
    )


def _queued(actor: Actor, now: datetime) -> tuple[Tile, Tile]:
    found = Job.objects.filter(readable(actor, "jobs.view"), state=State.QUEUED).aggregate(
        all=Count("pk"),
        oldest=Min("run_at"),
        retrying=Count("pk", filter=Q(wait_reason=WaitReason.RETRY)),
        soonest=Min("run_at", filter=Q(wait_reason=WaitReason.RETRY)),
    )
    retrying, oldest, soonest = found["retrying"], found["oldest"], found["soonest"]
    late = oldest is not None and oldest <= now
    return (
        Tile(
            "Retrying",
            retrying,
            f"next {distance(soonest, now)}" if soonest else "none",
            views.retrying(),
            "live",
        ),
        Tile(
            "Queued",
            found["all"],
            f"longest wait {length(now - oldest)}" if late else "none is due",
            views.in_state(State.QUEUED),
            "live",
        ),
    )


def _running(actor: Actor, now: datetime) -> Tile:
    found = Job.objects.filter(readable(actor, "jobs.view"), state=State.RUNNING).aggregate(
        all=Count("pk"), late=Count("pk", filter=Q(lease_until__lt=now)), oldest=Min("started_at")
    )
    fact = f"longest {length(now - found['oldest'])}" if found["oldest"] else "none"
    if found["late"]:
        fact = f"{found['late']} past their lease"
    return Tile("Running", found["all"], fact, views.in_state(State.RUNNING), "live")


def _oldest(moment: datetime | None, now: datetime) -> str:
    return f"oldest {length(now - moment)}" if moment else ""
