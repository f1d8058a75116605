"""Is this process alive, and can this installation do its work?

``/healthz/live`` answers while the process does. ``/healthz/ready`` is 503 until the database
answers, an upkeep pass was made less than 30 seconds ago, and the broker answers. Both are
answered before host names, sessions and redirects are looked at, so that a probe by address works,
and say no more than a stranger may know.

*Hole:* a database that accepts the connection and then hangs keeps the probe waiting; give the
probe its own timeout.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import cache

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from kombu import Connection
from kombu.exceptions import OperationalError

from jobs.models import Job, Upkeep
from jobs.states import State
from jobs.sweep import UPKEEP
from jobs.worker import is_alive, unlimited

UPKEEP_AGE = timedelta(seconds=30)
OK = "ok"
BROKER_SECONDS = 1


def database() -> str:
    """``ok``, or why the database cannot be used."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "The database does not answer; check DATABASE_URL and the server."
    return OK if is_migrated() else "Its tables are not those of this code; run manage.py migrate."


def is_migrated() -> bool:
    """Whether the last migration of each app was made. More, by a newer release, are fine."""
    try:
        return _last_migrations() <= MigrationRecorder(connection).applied_migrations().keys()
    except DatabaseError:
        return False


@cache
def _last_migrations() -> frozenset[tuple[str, str]]:
    """The last migration of each app of this code, read once."""
    return frozenset(MigrationLoader(None).graph.leaf_nodes())


def upkeep() -> str:
    """``ok``, or why nobody looks after waiting and lost jobs. Database time decides."""
    age = ExpressionWrapper(Now() - F("passed_at"), output_field=DurationField())
    try:
        last = Upkeep.objects.filter(name=UPKEEP).annotate(age=age).first()
    except DatabaseError:
        return "The tables cannot be read; run manage.py migrate."
    if last is None:
        return "No upkeep pass was ever made; start celery beat, or manage.py serve without broker."
    if last.age >= UPKEEP_AGE and not _runs_a_job(last.by):
        seconds = int(last.age.total_seconds())
        return f"The last upkeep pass was {seconds} s ago; check that celery beat runs."
    return OK


def _runs_a_job(by: str) -> bool:
    """Whether whoever made the last pass is at work: inline one thread makes passes and runs jobs.

    *Hole:* what is lost or due meanwhile waits for the end of that job.
    """
    if not settings.FIREDOOR_INLINE or not is_alive(by):
        return False
    return Job.objects.filter(
        state=State.RUNNING, worker=unlimited(by), lease_until__gt=Now()
    ).exists()


def broker() -> str:
    """``ok``, or why workers cannot be woken."""
    bounds = {"socket_timeout": BROKER_SECONDS, "socket_connect_timeout": BROKER_SECONDS}
    with Connection(settings.REDIS_URL or "", transport_options=bounds) as candidate:
        try:
            candidate.ensure_connection(max_retries=1, interval_start=0)
        except OperationalError:
            return "The broker does not answer; jobs wait in the database until it does."
    return OK


def readiness() -> dict[str, str]:
    """Each check's name and its answer; all ``ok`` is ready. Inline there is no broker to ask."""
    checks = {"database": database()}
    if checks["database"] == OK:
        checks["upkeep"] = upkeep()
    if settings.REDIS_URL is not None:
        checks["broker"] = broker()
    return checks


class HealthMiddleware:
    """Answers ``/healthz/live`` and ``/healthz/ready``; first in the list."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path not in ("/healthz/live", "/healthz/ready"):
            return self.get_response(request)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        checks = readiness() if request.path == "/healthz/ready" else {}
        ready = all(answer == OK for answer in checks.values())
        response = JsonResponse(
            {"status": OK if ready else "not ready", "checks": checks},
            status=200 if ready else 503,
        )
        response["Cache-Control"] = "no-store"
        return response
