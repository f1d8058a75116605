"""Each dead letter makes one log line and one report, wherever the job died.

In a worker, in beat (reaped, or buried past its deadline), in a command or the console: the
kernel's event is the one place they share. The words and the grouping are the alert's.
A kind with ``alert=None`` has alerts of its own. Where its handler itself said that the job fails,
or its deadline passed, that is no fault of the platform: a customer's receiver that is down makes
a line at a lower level, and no report for each message. Any other death of it is reported.
*Hole:* a process that ends between the commit and the report leaves only the alert.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

import sentry_sdk
from django.db import Error, transaction

from alerts import cause
from config.reporting import DEAD_LETTER
from jobs.events import receives
from jobs.fence import words_of
from jobs.models import Attempt, Event
from jobs.registry import find
from jobs.states import Cause

if TYPE_CHECKING:
    from sentry_sdk.types import Event as Report

    from alerts.cause import Death

logger = logging.getLogger(__name__)  # config.reporting lets its lines make no second report

_SAID_BY_HANDLERS = ("transient", "terminal")


@receives("job.dead", "job.uncertain")
def on_death(event: Event) -> None:
    """Report once the death is committed; a later delivery is for receivers that failed."""
    if event.tries == 0:
        # A plain function: of one that raised, Django logs the __qualname__, which a partial lacks.
        transaction.on_commit(lambda: report(event), robust=True)


def report(event: Event) -> None:
    """Log the dead letter, and tell Sentry where that is in use."""
    death, data = cause.death_in(event.data), event.data
    words = words_of(
        uuid.UUID(event.subject),
        death.kind,
        death.attempt,
        event.workspace_id,
        data["request_id"],
        data["traceparent"],
    )
    foreseen = _is_foreseen(death, data["reason"])
    logger.log(
        logging.INFO if foreseen else logging.ERROR,
        "job.dead",
        extra={**words, "cause": death.cause.value, "error_class": death.error_class},
    )
    if sentry_sdk.is_initialized() and not foreseen:
        told = _told(event, death, words)
        sentry_sdk.capture_event(told, hint={DEAD_LETTER: True})


def _is_foreseen(death: Death, reason: str) -> bool:
    """Whether the kind tells of such a death in its own way."""
    kind = find(death.kind)
    if kind is None or kind.alert is not None:
        return False
    return death.cause is Cause.DEADLINE or reason.partition(";")[0] in _SAID_BY_HANDLERS


def _told(event: Event, death: Death, words: dict[str, Any]) -> Report:
    slug, traceback = _looked_up(event, death)
    tags = {
        **{name: str(value) for name, value in words.items() if name != "trace_id"},
        "workspace": slug,
        "trace": words["trace_id"],
        "cause": death.cause.value,
        "step": death.step,
    }
    told: Report = {
        "event_id": uuid.uuid5(uuid.NAMESPACE_OID, f"firedoor dead letter {event.subject}").hex,
        "level": "fatal" if death.cause is Cause.UNCERTAIN else "error",
        "logger": __name__,
        "transaction": death.kind,
        "message": cause.title(death),
        "fingerprint": [cause.cause_key(death)],
        "tags": {name: value for name, value in tags.items() if value},
        "extra": {
            "what to do": cause.summary(death),
            "error": f"{death.error_class}: {death.message}".strip(": "),
            "reason": event.data["reason"],
            "traceback": traceback,
        },
    }
    if words["trace_id"]:
        span = event.data["traceparent"][36:52]
        told["contexts"] = {"trace": {"trace_id": words["trace_id"], "span_id": span}}
    return told


def _looked_up(event: Event, death: Death) -> tuple[str, str]:
    """The workspace's slug and the last traceback; a database that is gone spoils no report."""
    try:
        last = Attempt.objects.filter(job_id=event.subject, number=death.attempt)
        return event.workspace.slug, last.values_list("traceback", flat=True).first() or ""
    except Error:
        return str(event.workspace_id), ""
