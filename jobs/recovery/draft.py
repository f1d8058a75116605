"""How a bulk deed is drafted: its selection frozen to ids, each of them judged once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import transaction

from jobs.errors import OperationInvalid
from jobs.models import Operation, OperationItem
from jobs.recovery.item_verbs import ItemVerb, Judgement, criteria_in, verb_named
from jobs.run import STEPS_LIMIT
from jobs.states import ItemOutcome
from workspaces import audit
from workspaces.actors import Actor, as_actor
from workspaces.models import Workspace
from workspaces.permissions import require
from workspaces.visibility import visible_workspace

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ITEMS_LIMIT = STEPS_LIMIT - 1  # the canary is a step of its own
FASTEST = 6000
ID_LIMIT = 100


@dataclass(frozen=True)
class Care:
    """How carefully it is done.

    The first ``canary`` items must end well before the rest. ``rate_per_minute`` None takes the
    verb's own. It pauses after ``stop_after`` bad endings in a row, or when ``stop_ratio`` of
    the recent ones were bad.
    """

    canary: int = 0
    rate_per_minute: int | None = None
    stop_after: int = 3
    stop_ratio: float = 0.2

    def checked(self) -> Care:
        """Itself. Raises OperationInvalid."""
        rate = self.rate_per_minute
        if not 0 <= self.canary <= ITEMS_LIMIT:
            fault = f"the canary has from 0 to {ITEMS_LIMIT} items"
        elif rate is not None and not 1 <= rate <= FASTEST:
            fault = f"a rate is from 1 to {FASTEST} items a minute"
        elif not 1 <= self.stop_after <= ITEMS_LIMIT or not 0 < self.stop_ratio <= 1:
            fault = "the stop rule is a count from 1 on and a share above 0, at most 1"
        else:
            return self
        raise OperationInvalid(f"Nothing was drafted: {fault}.")


def draft(
    workspace: Workspace | str,
    verb: str,
    *,
    actor: Actor | User,
    ids: Sequence[str] = (),
    matching: str = "",
    care: Care | None = None,
) -> Operation:
    """Freeze a selection, by ``ids`` or by a filter such as ``state=dead,kind=app.name``.

    Each object becomes an item, pending or skipped with its reason; nothing is done to any. What
    comes to match the filter later is not in it; what changes later is judged again when its
    turn comes. Ids of another workspace are skipped like ids that do not exist.

    Raises, having written nothing: NoSuchWorkspace, NotAllowed, OperationInvalid (unknown verb
    or criterion, a careless care, neither or both of ids and filter, more objects than fit).
    """
    somebody = as_actor(actor)
    slug = workspace.slug if isinstance(workspace, Workspace) else workspace
    place = visible_workspace(somebody, slug)
    attempt = audit.Attempt(somebody, "operation.draft", place.pk, "workspace", place.pk)
    with audit.attempted(attempt):
        require(somebody, "operations.run", place)
    known, how = verb_named(verb), (care or Care()).checked()
    chosen = _chosen(known, place, ids, matching)
    judged = {j.object_id[:ID_LIMIT]: j for j in known.judge(place.pk, chosen, somebody)}
    rate = how.rate_per_minute or known.rate_per_minute
    operation = Operation(
        workspace=place,
        verb=verb,
        selection=(matching.strip() or f"{len(judged)} ids")[:500],
        selected=len(judged),
        eligible=sum(not j.code for j in judged.values()),
        outward=Counter(effect for j in judged.values() for effect in j.outward),
        actor=somebody.id,
        actor_label=somebody.label[:200],
        **{**how.__dict__, "rate_per_minute": rate},
    )
    _written(operation, judged)
    return operation


def _chosen(
    verb: ItemVerb, workspace: Workspace, ids: Sequence[str], matching: str
) -> Sequence[str]:
    if bool(ids) == bool(matching.strip()):
        raise OperationInvalid("Nothing was selected: give either ids or a filter.")
    limit = ITEMS_LIMIT + 1
    chosen = list(map(str, ids)) or verb.select(workspace.pk, criteria_in(matching), limit)
    if len(chosen) >= limit:
        raise OperationInvalid(
            f"Nothing was selected: an operation has at most {ITEMS_LIMIT} items and this one "
            "would have more. Narrow the filter, for example to one kind or one fingerprint, "
            "and make several."
        )
    return chosen


def _written(operation: Operation, judged: Mapping[str, Judgement]) -> None:
    items = [
        OperationItem(
            operation=operation,
            object_id=object_id,
            position=position,
            outcome=ItemOutcome.SKIPPED if each.code else ItemOutcome.PENDING,
            code=each.code,
            sentence=each.sentence,
        )
        for position, (object_id, each) in enumerate(judged.items(), start=1)
    ]
    with transaction.atomic():
        operation.save(force_insert=True)
        OperationItem.objects.bulk_create(items, batch_size=1000)
    operation.refresh_from_db()
