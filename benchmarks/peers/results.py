"""Celery that keeps every result with django-celery-results, whose settings are its defaults.

The broker's settings are raw Celery's.
"""

import os

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.peers.results_settings"

import django
from celery import Celery

from benchmarks.peers.broker import shared
from benchmarks.stamps import mark

django.setup()

from django_celery_results.models import TaskResult  # noqa: E402

app = Celery("results", set_as_current=False)
app.conf.update(**shared(), result_backend="django-db")
noop = app.task(name="noop")(mark)


def clear() -> None:
    """Forget what waits and what was kept."""
    app.control.purge()
    TaskResult.objects.all().delete()


def enqueue(_task: str, count: int) -> None:
    """Publish one by one, as callers do."""
    for _ in range(count):
        noop.delay()


def finished() -> int | None:
    """The results kept."""
    return TaskResult.objects.filter(status="SUCCESS").count()
