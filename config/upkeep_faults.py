"""What went wrong in upkeep is kept beside the failed envelopes, for the admin and the doctor.

One row per sort of fault, however often it happens: an upkeep pass comes every second. Its
``date_done`` is when it happened last.
*Hole:* while the database is out of reach nothing can be kept; the log and Sentry have it.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from django.db import Error, transaction
from django.dispatch import receiver

from jobs.failure import evidence_of
from jobs.sweep import fault
from jobs.worker import identity

logger = logging.getLogger(__name__)

PREFIX = "upkeep."


@receiver(fault)
def keep(*, work: str, error: Exception, **_: Any) -> None:
    """Keep one fault of the pass, or of its work on one row."""
    from django_celery_results.models import TaskResult

    evidence = evidence_of(error, kind=PREFIX, step=work)
    row = {
        "task_name": f"{PREFIX}{work}",
        "status": "FAILURE",
        "worker": identity()[:100],
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "result": json.dumps({"exc_type": evidence.error_class, "exc_message": evidence.message}),
        "traceback": evidence.traceback,
    }
    try:
        with transaction.atomic():
            task_id = f"{PREFIX}{work}.{evidence.fingerprint}"
            TaskResult.objects.update_or_create(task_id=task_id, defaults=row)
    except Error as gone:
        logger.warning("upkeep.fault_not_kept", extra={"error": type(gone).__name__})
