"""Which workspaces want to hear of plain successes: asked by every job, so kept in the process.

*Hole:* a process learns of a new subscription up to ``SECONDS`` later; plain successes before are
not told. After the last one was given up, successes are written for as long without being sent.
"""

from __future__ import annotations

import logging
import time

from django.db import DatabaseError, connection, transaction

from webhooks.catalogue import OPT_IN
from webhooks.models import Endpoint
from webhooks.states import EndpointState

logger = logging.getLogger(__name__)

SECONDS = 5.0


class _Known:
    """What this process knows, and until when by its monotonic clock."""

    workspaces: frozenset[int] = frozenset()
    until = 0.0


def wants_successes(workspace_id: int) -> bool:
    """Whether some endpoint of the workspace asks for every success. Never raises."""
    if time.monotonic() >= _Known.until:
        _refresh()
    return workspace_id in _Known.workspaces


def forget() -> None:
    """Ask the database again next time."""
    _Known.until = 0.0


def _refresh() -> None:
    """Read them anew; where that fails, what was known stays, and is asked again in a moment."""
    _Known.until = time.monotonic() + SECONDS
    try:
        with transaction.atomic():
            rows = Endpoint.objects.exclude(state=EndpointState.DISABLED)
            found = rows.values_list("workspace_id", "events")
            _Known.workspaces = frozenset(pk for pk, events in found if OPT_IN in events)
    except DatabaseError:
        if connection.closed_in_transaction:
            raise
        logger.warning("webhooks.subscriptions_unknown", exc_info=True)
