"""Which of the two queues an endpoint belongs to: by how long it took to answer."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping

from django.db import DatabaseError

from jobs import moves
from jobs.models import Job
from webhooks.health import is_quick, is_slow
from webhooks.models import GATE, Endpoint
from webhooks.parcels import Parcel
from webhooks.states import FAST, SLOW

logger = logging.getLogger(__name__)


def keep_lane(parcel: Parcel, code: str, seconds: float, *, by_hand: bool = False) -> None:
    """Move an endpoint, with all that waits for it, if the answer shows that it belongs there.

    A new one begins among the slow: nobody knows yet. A quick answer to what was sent by hand
    speaks for it, as to a test before its first event; a slow one does not speak against it. Never
    raises for the database: where the move fails, the next answer makes it.
    """
    lane = parcel.lane
    if is_quick(code, seconds):
        lane = FAST
    elif is_slow(code, seconds) and not by_hand:
        lane = SLOW
    if lane == parcel.lane:
        return
    try:
        Endpoint.objects.filter(pk=parcel.endpoint_id).update(lane=lane)
        moves.change_lane(parcel.workspace_id, parcel.gate, lane)
    except DatabaseError:
        logger.warning("webhooks.lane_not_changed", extra={"endpoint_id": str(parcel.endpoint_id)})


def look_again(workspace_id: int, seen: Mapping[uuid.UUID, str]) -> None:
    """Move what was put where an endpoint belonged when its lane was ``seen``. After the commit.

    Whoever moved the endpoint meanwhile could not see what was not committed yet. *Hole:* where
    the process dies in between, or the database does not answer, it waits in the old lane.
    """
    for endpoint_id, lane in Endpoint.objects.filter(pk__in=seen).values_list("pk", "lane"):
        if lane != seen[endpoint_id]:
            moves.change_lane(workspace_id, f"{GATE}{endpoint_id}", lane)


def keep_lane_of(successor: Job, endpoint_id: str) -> None:
    """Let a retried delivery wait where its endpoint belongs now, not where it did then.

    In the transaction that retries it. *Hole:* if the endpoint moves before that is committed, it
    waits in the lane that was left.
    """
    for lane in Endpoint.objects.filter(pk=endpoint_id).values_list("lane", flat=True):
        if lane != successor.queue:
            moves.change_queue(successor.pk, lane)
