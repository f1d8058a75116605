"""How log lines look, what they carry, and that no secret is in them.

Every line of every library carries what its work is known by: during an attempt ``job_id kind
attempt workspace request_id trace_id``, during a request its ``request_id``. Every line passes
``scrub_event`` last, after tracebacks became text.
*Hole:* threads that a handler starts itself carry nothing, unless they run in a copy of its
context.
"""

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from workspaces.redaction import is_harmless, redact, scrub_within


def name_the_work(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add what the context knows; where the line itself says something else, keep that aside."""
    for name, value in structlog.contextvars.get_contextvars().items():
        if event.get(name, value) != value:
            event[f"said_{name}"] = event[name]
        event[name] = value
    return event


SHARED: tuple[Processor, ...] = (
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    name_the_work,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def scrub_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hide what is secret in every value of a log event."""
    return scrubbed(event)


def scrubbed(event: Mapping[str, Any]) -> dict[str, Any]:
    """``event`` as plain JSON, without what is secret by its name or by its shape."""
    if is_harmless(event):
        return dict(event)
    hidden = redact({name: _plain(value) for name, value in event.items()})
    return {name: scrub_within(value) for name, value in cast("dict[str, Any]", hidden).items()}


def _plain(value: object) -> object:
    """``value`` with everything that JSON does not know as text."""
    match value:
        case bool() | int() | float() | str() | None:
            return value
        case dict():
            return {str(name): _plain(inner) for name, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(inner) for inner in value]
        case datetime():
            return value.isoformat()
        case _:
            return str(value)


def configure(level: str, style: str) -> dict[str, Any]:
    """Set structlog up and return Django's ``LOGGING`` for ``style`` console or json."""
    logging.raiseExceptions = False  # a line that cannot be formatted would be printed unscrubbed
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": SHARED,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.format_exc_info,
                    scrub_event,
                    _renderer(style),
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Django brings handlers of its own for these; one line each is enough.
            "django": {"handlers": [], "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
        },
    }


def _renderer(style: str) -> Processor:
    if style == "json":
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(
        colors=False, exception_formatter=structlog.dev.plain_traceback
    )
