"""An operation as it may be shown: JSON throughout, scrubbed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import Count

from jobs.models import Operation, OperationItem
from jobs.recovery.course import counts
from workspaces.redaction import scrub


def account_of(operation: Operation) -> dict[str, Any]:
    """An operation with what became of its items so far. Two queries."""
    return {
        **line_of(operation),
        "counts": counts(operation.pk),
        "not_done": reasons(operation),
        "outward": operation.outward,
        "canary": operation.canary,
        "rate_per_minute": operation.rate_per_minute,
        "stop_after": operation.stop_after,
        "stop_ratio": operation.stop_ratio,
        "resolution": scrub(operation.resolution),
    }


def line_of(operation: Operation) -> dict[str, Any]:
    """An operation as a line of a list; moments in ISO 8601 UTC. No query."""
    return {
        "id": str(operation.pk),
        "workspace": operation.workspace.slug,
        "verb": operation.verb,
        "state": operation.state,
        "note": scrub(operation.note),
        "selection": operation.selection,
        "frozen_at": _iso(operation.frozen_at),
        "selected": operation.selected,
        "eligible": operation.eligible,
        "reason": scrub(operation.reason),
        "actor": operation.actor,
        "job_id": str(operation.job_id) if operation.job_id else None,
        "started_at": _iso(operation.started_at),
        "finished_at": _iso(operation.finished_at),
        "resolved_at": _iso(operation.resolved_at),
    }


def reasons(operation: Operation) -> dict[str, dict[str, int]]:
    """How many items were skipped and failed for each reason: ``{"skipped": {code: count}}``."""
    rows = OperationItem.objects.filter(operation_id=operation.pk).exclude(code="")
    found: dict[str, dict[str, int]] = {}
    counted = rows.values_list("outcome", "code").annotate(count=Count("pk"))
    for outcome, code, count in counted.order_by("outcome", "code"):
        found.setdefault(outcome, {})[code] = count
    return found


def items_of(operation: Operation) -> Iterator[dict[str, Any]]:
    """Every item in its order, read as it is asked for."""
    rows = OperationItem.objects.filter(operation_id=operation.pk).order_by("position")
    for row in rows.iterator():
        yield item_told(row)


def item_told(row: OperationItem) -> dict[str, Any]:
    """One item, and why it was not done if it was not."""
    return {
        "position": row.position,
        "object_id": row.object_id,
        "outcome": row.outcome,
        "code": row.code,
        "sentence": scrub(row.sentence),
        "result_id": row.result_id,
        "done_at": _iso(row.done_at),
    }


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
