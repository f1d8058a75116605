"""How log lines look, and that no secret is in them.

Every line of every library passes ``scrub_event`` last, after tracebacks became text.
"""

from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def scrub_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace what looks like a secret in every value of a log event."""
    return {name: _scrubbed(value) for name, value in event.items()}


def _scrubbed(value: Any) -> Any:
    try:
        from jobs.redaction import scrub
    except ImportError:
        return value
    match value:
        case bool() | int() | float() | None:
            return value
        case dict():
            return {key: _scrubbed(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_scrubbed(inner) for inner in value]
        case _:
            return scrub(str(value))


def configure(level: str, style: str) -> dict[str, Any]:
    """Set structlog up and return Django's ``LOGGING`` for ``style`` console or json."""
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
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
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
                    renderer,
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"handlers": [], "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
        },
    }
