"""Whether a secret shows anywhere that is displayed, logged or sent.

Stored params and step outputs may hold secrets; everything else the platform writes may not.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.apps import apps
from django.db.models import Model
from structlog.stdlib import ProcessorFormatter

from jobs.models import Job
from jobs.shown import shown
from workspaces.redaction import forms

PLATFORM = ("workspaces", "jobs", "alerts", "webhooks", "django_celery_results")
RAW = frozenset({"params", "result", "output", "late_output", "observed_output"})


@contextmanager
def listening() -> Iterator[list[str]]:
    """The log lines of the block, as the configured formatter writes them."""
    lines: list[str] = []
    listener = _Listener(lines)
    root = logging.getLogger()
    listener.setFormatter(_configured(root))
    root.addHandler(listener)
    try:
        yield lines
    finally:
        root.removeHandler(listener)


def leaked(secrets: frozenset[str], lines: list[str], job: Job) -> list[str]:
    """Where one of ``secrets`` shows: log lines, tables of the platform, the job as displayed."""
    found = [where for where, text in _surfaces(lines, job) if _holds(text, secrets)]
    return sorted(set(found))


def _surfaces(lines: list[str], job: Job) -> Iterator[tuple[str, str]]:
    for line in lines:
        yield "the logs", line
    yield "the job as shown", json.dumps(shown(Job.objects.get(pk=job.pk)), ensure_ascii=False)
    yield from tables()


def tables() -> Iterator[tuple[str, str]]:
    """Every text in every table of the platform that is not the stored value of a job or step."""
    for label in PLATFORM:
        if apps.is_installed(label) or label in apps.app_configs:
            for model in apps.get_app_config(label).get_models():
                yield from _rows(model)


def _rows(model: type[Model]) -> Iterator[tuple[str, str]]:
    for row in model._default_manager.values():
        for column, value in row.items():
            if column not in RAW and isinstance(value, (str, dict, list)):
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                yield f"{model._meta.label}.{column}", text


def _holds(text: str, secrets: frozenset[str]) -> bool:
    return any(form in text for secret in secrets for form in forms(secret))


def _configured(root: logging.Logger) -> logging.Formatter:
    for handler in root.handlers:
        if isinstance(handler.formatter, ProcessorFormatter):
            return handler.formatter
    raise AssertionError("logging is not configured by config.logs: nothing would be scrubbed")


class _Listener(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))
