"""What happened to a job, as it happens: by a cursor, and by a wait that is bounded."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.answers import EventFeed
from jobs.api.views import JobView
from jobs.curtain import Curtain
from jobs.models import Event, Job
from jobs.shown import happened, standing
from workspaces.http.filtering import StrictFilters, Whole
from workspaces.http.keyset import LARGEST, LIMIT, MOST

LONGEST_WAIT = 20
POLL_SECONDS = 0.5
WAITING_AT_ONCE = 2
"""Requests that may wait in one process, of the four that it serves at once: the rest must pass."""

_places = threading.BoundedSemaphore(WAITING_AT_ONCE)


class EventsQuery(StrictFilters):
    """From where on, how many, and how long to wait for the first."""

    parameters = ()
    after = Whole(min_value=0, max_value=LARGEST)
    limit = Whole(min_value=1, max_value=MOST)
    wait = Whole(min_value=0, max_value=LONGEST_WAIT)

    class Meta:
        model = Event
        fields: tuple[str, ...] = ()


class Events(JobView):
    """`GET` lists the events of a job, oldest first."""

    filters = EventsQuery
    gives = {"GET": {200: EventFeed}}

    def get(self, request: Request, slug: str, job_id: uuid.UUID) -> Response:
        """Events after `after`, and how the job stands. Ask again with `after` as it is answered.

        With `wait` it answers as soon as there is an event, the job's state or progress is
        another, or it has ended; at the latest after so many seconds. While too many wait it
        answers at once. A plain success may leave no event: look at `job`.
        """
        asked = EventsQuery.asked(request)
        feed = Feed(self.job, asked.get("after", 0), asked.get("limit", LIMIT))
        return Response(feed.awaited(asked.get("wait", 0)))


class Feed:
    """What is to be read of one job, looked at once or several times."""

    def __init__(self, job: Job, after: int, limit: int) -> None:
        self._job = job
        self._after = after
        self._limit = limit
        self._curtain = Curtain.of(job)

    def awaited(self, seconds: int) -> dict[str, Any]:
        """The feed when there is something new in it, or after `seconds`.

        Each look is two queries outside any transaction; nothing is held between them.
        """
        answer = self.read()
        if not seconds or not _places.acquire(blocking=False):
            return answer
        try:
            before, until = answer["job"], time.monotonic() + seconds
            while not (answer["results"] or answer["job"] != before or answer["job"]["final"]):
                if time.monotonic() > until - POLL_SECONDS:
                    break
                time.sleep(POLL_SECONDS)
                answer = self.read()
        finally:
            _places.release()
        return answer

    def read(self) -> dict[str, Any]:
        """Now. The job first: once it is final, the events that tell its end are there."""
        row = Job.objects.defer("params", "result", "resolution").filter(pk=self._job.pk).first()
        job = row or self._job  # it was pruned meanwhile
        events = Event.objects.filter(subject=str(job.pk), workspace_id=job.workspace_id)
        found = list(events.filter(pk__gt=self._after).order_by("pk")[: self._limit])
        return {
            "results": [happened(event, self._curtain) for event in found],
            "after": found[-1].pk if found else self._after,
            "job": standing(job),
        }
