"""Has everybody heard what happened?"""

from __future__ import annotations

from datetime import timedelta

from django.db.models import QuerySet
from django.db.models.functions import Now

from config.doctor.answer import Answer, fail, ok, warn
from config.doctor.check import check
from config.doctor.sight import Sight
from jobs.events import MAX_TRIES
from jobs.models import Event

PATIENCE = timedelta(minutes=1)
WAITING = Event.objects.filter(delivered_at__isnull=True)


@check("events.undelivered", needs="database.migrations", command="manage.py sweep")
def undelivered(_sight: Sight) -> Answer:
    """Are events delivered?

    A receiver (alerts, webhooks) raised; upkeep calls it again, later each time. The sentence has
    its error. Mend that and it catches up by itself.
    """
    rows = WAITING.filter(tries__lt=MAX_TRIES, created_at__lt=Now() - PATIENCE)
    if not rows.exists():
        return ok("Every event is delivered.")
    return warn(f"{rows.count()} events wait to be delivered again. {_why(rows)}", _subjects(rows))


@check(
    "events.exhausted",
    needs="database.migrations",
    command='manage.py shell -c "from jobs.models import Event;'
    ' Event.objects.filter(delivered_at=None).update(tries=0)"',
)
def exhausted(_sight: Sight) -> Answer:
    """Did every receiver hear of every event in the end?

    Its receivers raised every time, and nobody calls them any more: an alert or a delivery is
    missing. Mend what the error says, then let upkeep try again.
    """
    rows = WAITING.filter(tries__gte=MAX_TRIES)
    if not rows.exists():
        return ok("No event was given up.")
    sentence = f"{rows.count()} events were given up after {MAX_TRIES} tries. {_why(rows)}"
    return fail(sentence, _subjects(rows))


def _why(rows: QuerySet[Event]) -> str:
    newest = rows.order_by("-pk").values_list("type", "error").first()
    return f"Newest: {newest[0]}: {newest[1] or 'not tried yet'}" if newest else ""


def _subjects(rows: QuerySet[Event]) -> list[str]:
    return [f"{kind} {subject}" for kind, subject in rows.values_list("type", "subject")[:5]]
