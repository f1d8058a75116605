"""What Sentry hears, when SENTRY_DSN names one: each dead letter once, and what nobody expected.

Dead letters come from ``config.dead_letters``. Besides them, unexpected exceptions of the platform
and of the web are reported. Not reported: failures that a retry follows, whatever a handler logs on
its way, refusals, lost workers (the job's own end tells), and work that goes well: there is no
tracing, so a message that claims nothing leaves nothing behind.

Nothing personal is attached, no local variables, request bodies or command lines, and no
breadcrumbs of a job; what remains passes the same scrubbing as the logs.
"""

import time
from collections.abc import Hashable
from typing import cast

import sentry_sdk
from sentry_sdk.integrations.argv import ArgvIntegration
from sentry_sdk.integrations.celery import CeleryIntegration
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.types import Breadcrumb, BreadcrumbHint, Event, Hint
from structlog.contextvars import get_contextvars

from config.logs import scrubbed
from workspaces.errors import FiredoorError

DEAD_LETTER = "dead_letter"  # in the hint of an event: it is one
AGAIN_SECONDS = 60.0

# What the first three say of an attempt is told by the job's end, if it ends by that.
_SILENT = ("celery.worker.request", "multiprocessing", "jobs.heartbeat", "config.dead_letters")
_PLATFORM = ("jobs.", "alerts.", "workspaces.", "config.")
_HANDLERS = "jobs.run."

_last_said: dict[Hashable, float] = {}


def start(dsn: str | None, environment: str) -> None:
    """Report this process' unexpected errors to ``dsn``; does nothing without one."""
    if dsn is None:
        return
    for name in _SILENT:
        ignore_logger(name)
    sentry_sdk.init(
        dsn=dsn,
        environment=environment,
        send_default_pii=False,
        include_local_variables=False,
        max_request_body_size="never",
        auto_session_tracking=False,
        send_client_reports=False,
        # Messages carry ids only; the trace of a job stands in its row.
        integrations=[CeleryIntegration(propagate_traces=False)],
        disabled_integrations=[ArgvIntegration()],  # `job enqueue --params …`
        before_send=_worth_sending,
        before_breadcrumb=_crumb,
    )


def _worth_sending(event: Event, hint: Hint) -> Event | None:
    if DEAD_LETTER in hint:
        event.pop("breadcrumbs", None)
        return _without_secrets(event)
    if _is_refusal(hint) or _is_said_by_a_handler(event) or _was_just_said(event, hint):
        return None
    event["tags"] = {**{n: str(v) for n, v in get_contextvars().items()}, **event.get("tags", {})}
    return _without_secrets(event)


def _is_refusal(hint: Hint) -> bool:
    """Whether somebody was told no, with a sentence: an answer, unless somebody logged it."""
    kind = (hint.get("exc_info") or (None,))[0]
    return kind is not None and issubclass(kind, FiredoorError) and "log_record" not in hint


def _is_said_by_a_handler(event: Event) -> bool:
    """Whether this comes from inside an attempt, and not from the platform around it."""
    if "attempt" not in get_contextvars():
        return False
    logger = event.get("logger") or ""
    return not logger.startswith(_PLATFORM) or logger.startswith(_HANDLERS)


def _was_just_said(event: Event, hint: Hint) -> bool:
    """Whether this process logged the same within the last minute.

    An upkeep pass comes every second, and while the database is down each of them fails.
    """
    record = hint.get("log_record")
    if record is None:
        return False
    said = (record.name, str(record.msg), (hint.get("exc_info") or (None,))[0])
    now = time.monotonic()
    just = now - _last_said.get(said, -AGAIN_SECONDS) < AGAIN_SECONDS
    if not just:
        _last_said[said] = now
    return just


def _crumb(crumb: Breadcrumb, _hint: BreadcrumbHint) -> Breadcrumb | None:
    return None if "attempt" in get_contextvars() else scrubbed(crumb)


def _without_secrets(event: Event) -> Event:
    return cast(Event, scrubbed(event))
