"""When an operation must pause by itself: its canary, and its stop rule.

Both look at what became of the deeds, not only at whether they could be done: an item fails when
its deed fails, and it ended badly when what it set off ended otherwise than well. An item whose
fate is not known yet speaks neither way.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from jobs.models import Operation, OperationItem
from jobs.recovery.item_verbs import verb_named
from jobs.states import ItemOutcome

RECENT = 200
ENOUGH = 10  # fates below which a share of them says nothing
ACTED = (ItemOutcome.DONE, ItemOutcome.FAILED)


def judged(fates: Sequence[bool], stop_after: int, stop_ratio: float) -> str:
    """Why to pause, or nothing. ``fates`` are the known ones, newest first. Pure."""
    streak = sum(1 for _ in takewhile(lambda well: not well, fates))
    if streak >= stop_after:
        return f"the last {streak} whose fate is known ended badly"
    bad = fates.count(False)
    if len(fates) >= ENOUGH and bad >= stop_ratio * len(fates):
        return f"{bad} of the last {len(fates)} whose fate is known ended badly"
    return ""


def trouble(operation: Operation) -> str:
    """What the stop rule says now, about what was done since somebody last let it go on."""
    acted = OperationItem.objects.filter(
        operation_id=operation.pk, position__gte=operation.watched_from, outcome__in=ACTED
    ).order_by("-position")
    ahead = _first_pending(operation)
    if ahead is not None:  # from there on nothing was done: thousands that need no look
        acted = acted.filter(position__lt=ahead)
    recent = list(acted.values_list("outcome", "result_id")[:RECENT])
    known = _fates(operation, [result for _outcome, result in recent if result])
    fates = [
        False if outcome == ItemOutcome.FAILED else known[result]
        for outcome, result in recent
        if outcome == ItemOutcome.FAILED or result in known
    ]
    return judged(fates, operation.stop_after, operation.stop_ratio)


def _first_pending(operation: Operation) -> int | None:
    left = OperationItem.objects.filter(operation_id=operation.pk, outcome=ItemOutcome.PENDING)
    return left.order_by("position").values_list("position", flat=True).first()


def canaries(operation: Operation, *, beyond: int = 0) -> int:
    """How many canaries were done or failed (skipped ones are none), and how many ``beyond``."""
    acted = OperationItem.objects.filter(operation_id=operation.pk, outcome__in=ACTED)
    return acted.order_by("position")[: operation.canary + beyond].count()


def canary(operation: Operation) -> str | None:
    """None while a canary has not ended; else nothing, or what ended badly.

    The canaries are the first items that were acted on. A deed that failed is not asked about
    again: it paused the operation when it failed.
    """
    first = OperationItem.objects.filter(operation_id=operation.pk, outcome__in=ACTED)
    results = first.order_by("position").values_list("result_id", flat=True)[: operation.canary]
    asked = [result for result in results if result]
    known = _fates(operation, asked)
    bad = [result for result in asked if known.get(result) is False]
    if bad:
        return f"a canary ended badly: {', '.join(bad[:3])}"
    return "" if len(known) == len(asked) else None


def _fates(operation: Operation, result_ids: list[str]) -> dict[str, bool]:
    return verb_named(operation.verb).fates(result_ids) if result_ids else {}
