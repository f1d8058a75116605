"""How the questions about jobs are answered: how many rows there are, and which are the oldest."""

from __future__ import annotations

from django.db.models import QuerySet

from config.doctor.answer import Answer, Level, ok
from jobs.models import Job

NAMED = 5


def stuck(rows: QuerySet[Job], level: Level, problem: str, fine: str) -> Answer:
    """How many rows have the ``problem``, and the oldest of them; ``fine`` if there are none."""
    oldest = list(rows.order_by("pk").values_list("pk", flat=True)[: NAMED + 1])
    if not oldest:
        return ok(fine)
    count = len(oldest) if len(oldest) <= NAMED else rows.count()
    jobs = "1 job" if count == 1 else f"{count} jobs"
    return Answer(level, f"{jobs}: {problem}", tuple(map(str, oldest[:NAMED])))
