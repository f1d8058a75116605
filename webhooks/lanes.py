"""Which of the two queues an endpoint belongs to: by how long it took to answer."""

from __future__ import annotations

import logging

from django.db import DatabaseError

from jobs import moves
from webhooks.health import is_quick, is_slow
from webhooks.models import Endpoint
from webhooks.parcels import Parcel
from webhooks.states import FAST, SLOW

logger = logging.getLogger(__name__)


def keep_lane(parcel: Parcel, code: str, seconds: float) -> None:
    """Move an endpoint, with all that waits for it, if the answer shows that it belongs there.

    A new one begins among the slow: nobody knows yet. Never raises for the database: where the
    move fails, the next answer makes it.
    """
    lane = SLOW if is_slow(code, seconds) else FAST if is_quick(code, seconds) else parcel.lane
    if lane == parcel.lane:
        return
    try:
        Endpoint.objects.filter(pk=parcel.endpoint_id).update(lane=lane)
        moves.change_lane(parcel.workspace_id, parcel.gate, lane)
    except DatabaseError:
        logger.warning("webhooks.lane_not_changed", extra={"endpoint_id": str(parcel.endpoint_id)})
