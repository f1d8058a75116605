"""Where Celery keeps what it knows of failed messages: in the database, if that is there.

Celery calls this from a worker's main process, which it ends if this raises, and which never heals
a connection. So nothing is raised, and each row is written over a connection of its own: rows are
rare, and opening one waits no longer than ``connect_timeout``.
*Hole:* what cannot be written is only in the log. No job depends on it.
"""

from __future__ import annotations

import logging
from typing import Any

from django.db import Error, connection
from django_celery_results.backends import DatabaseBackend

logger = logging.getLogger(__name__)


class FailedEnvelopes(DatabaseBackend):  # type: ignore[misc]  # it has no types
    """Keeps failures, and never makes one."""

    def store_result(self, task_id: str, result: Any, state: str, *rest: Any, **more: Any) -> Any:
        """Keep one row; answers ``result``, whatever comes of it."""
        _close()
        try:
            return super().store_result(task_id, result, state, *rest, **more)
        except Error as gone:
            words = {"message_id": task_id, "state": state, "error": type(gone).__name__}
            logger.warning("envelope.not_kept", extra=words)
            return result
        finally:
            _close()


def _close() -> None:
    if not connection.in_atomic_block:
        connection.close()
