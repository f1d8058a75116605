"""How is a lifecycle moved? By compare-and-swap, in the caller's transaction."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now

from provisioning.lifecycle.models import Lifecycle
from provisioning.lifecycle.states import Move


def move(lifecycles: QuerySet[Lifecycle], by: Move, **changes: Any) -> bool:
    """Move the one lifecycle if it still stands where the move begins; answers whether it did.

    Safe to repeat: the second time it stands elsewhere, and nothing changes.
    """
    standing = lifecycles.filter(state=by.source)
    return bool(standing.update(state=by.target, changed_at=Now(), **changes))
