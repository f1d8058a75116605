"""Does somebody look after lost and waiting jobs?"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db.models.functions import Now
from django_celery_results.models import TaskResult

from config import health
from config.doctor.answer import Answer, Level, ok, warn
from config.doctor.check import check
from config.doctor.sight import Sight
from config.upkeep_faults import PREFIX

LATELY = timedelta(hours=1)


@check("upkeep.age", needs="database.migrations", command="celery -A config beat --pidfile=")
def age(_sight: Sight) -> Answer:
    """Is an upkeep pass made every second?

    Without it, lost jobs stay running for ever, due ones are not started and deadlines pass
    unseen; nothing is lost, and all of it is made up for once a beat runs again. Any number of
    beats may run. ``manage.py sweep`` makes one pass by hand.
    """
    answer = health.upkeep()
    if answer == health.OK:
        return ok("Upkeep passes are made.")
    return Answer(Level.FAIL, answer, command="manage.py serve" if settings.FIREDOOR_INLINE else "")


@check(
    "upkeep.faults",
    needs="database.migrations",
    command="manage.py sweep",
)
def faults(_sight: Sight) -> Answer:
    """Did upkeep meet errors within the last hour?

    One bad row stops nothing else, but it is tried again on every pass and never gets anywhere.
    The console lists each fault with its traceback under "Task results".
    """
    rows = TaskResult.objects.filter(
        task_name__startswith=PREFIX, date_done__gt=Now() - LATELY
    ).order_by("-date_done")
    names = list(rows.values_list("task_name", flat=True)[:5])
    if not names:
        return ok("Upkeep met no errors within the last hour.")
    return warn("Upkeep met errors within the last hour.", names)


@check(
    "envelopes.failed",
    needs="database.migrations",
    command="manage.py job show ROW",
)
def envelopes(_sight: Sight) -> Answer:
    """Did messages fail outside their jobs within the last hour?

    A worker process was killed, the hard time limit struck, the database could not be reached, or
    the message was not one of ours. The jobs themselves come back by their leases and by upkeep;
    many of these mean that workers run out of memory or lose the database. The console lists them
    with their tracebacks under "Task results".
    """
    rows = TaskResult.objects.filter(status="FAILURE", date_done__gt=Now() - LATELY).exclude(
        task_name__startswith=PREFIX
    )
    count = rows.count()
    if not count:
        return ok("No message failed outside its job within the last hour.")
    woke = rows.order_by("-date_done").values_list("task_args", flat=True)[:5]
    jobs = [args.strip("\"'(),") for args in woke if args]
    return warn(f"{count} messages failed outside their jobs within the last hour.", jobs)
