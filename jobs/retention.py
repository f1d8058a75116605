"""How long records are kept: whole final chains only, and never an unresolved dead letter.

The newest job of a chain decides: succeeded or cancelled for its kind's ``retention``, dead and
resolved for its ``retention_dead``. Nothing that is held, open or unresolved is ever pruned.
*Hole:* a key protects from a second intent only while its chain is kept; domain rows that must
stay unique for longer (a run, an occurrence, a delivery) have their own.
"""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from jobs import registry
from jobs.models import Attempt, Event, Job, Lock
from jobs.models import Step as StepRow
from jobs.registry import KindSpec
from jobs.states import State

CHAINS = 200
EVENTS = 2_000
EVENTS_KEPT = timedelta(days=30)


def prune() -> int:
    """Delete what has been kept long enough, in bounded batches; how many jobs went."""
    gone = sum(_prune_kind(spec) for spec in _kinds_with_old_jobs())
    _prune_events()
    return gone


def _kinds_with_old_jobs() -> list[KindSpec]:
    """The kinds that may have something to prune.

    One look at all jobs, where a look for each kind takes seconds among a million.
    """
    kinds = registry.KINDS
    shortest = min(min(spec.retention, spec.retention_dead) for spec in kinds.values())
    old = Job.objects.filter(finished_at__lt=Now() - shortest).values_list("kind", flat=True)
    return [kinds[kind] for kind in sorted(set(old.distinct())) if kind in kinds]


def _prune_kind(spec: KindSpec) -> int:
    with transaction.atomic():
        skip = connection.features.has_select_for_update_skip_locked
        newest = _expired(spec).select_for_update(skip_locked=skip, of=("self",) if skip else ())
        roots = list(newest.values_list("root_id", flat=True)[:CHAINS])
        return _delete_chains(roots) if roots else 0


def _expired(spec: KindSpec) -> QuerySet[Job]:
    """The newest jobs of chains of one kind that have been kept long enough."""
    ended = Q(state__in=(State.SUCCEEDED, State.CANCELLED), finished_at__lt=Now() - spec.retention)
    settled = Q(state=State.DEAD, resolved_at__lt=Now() - spec.retention_dead)
    held = Lock.objects.filter(job__root_id=OuterRef("root_id"))
    retried = Job.objects.filter(retry_of_id=OuterRef("pk"))
    rows = Job.objects.filter(ended | settled, kind=spec.name)
    return rows.exclude(Exists(held)).exclude(Exists(retried)).order_by("pk")


def _delete_chains(roots: list[uuid.UUID]) -> int:
    """Delete all jobs of these chains, the newest of which are locked, with all their rows.

    In one statement, past Django's collector, which would refuse a job that a retry points to;
    the database checks its deferred keys at the end of the transaction.
    """
    jobs = Job.objects.filter(root_id__in=roots)
    ids = list(jobs.values_list("pk", flat=True))
    StepRow.objects.filter(job_id__in=ids).delete()
    Attempt.objects.filter(job_id__in=ids).delete()
    Job.objects.filter(pk__in=ids)._raw_delete(connection.alias)
    return len(ids)


def _prune_events() -> None:
    old = Event.objects.filter(delivered_at__lt=Now() - EVENTS_KEPT).order_by("pk")
    ids = list(old.values_list("pk", flat=True)[:EVENTS])
    Event.objects.filter(pk__in=ids).delete()
