"""The Celery settings of Firedoor that raw Celery gets as well, so that both drive one broker."""

from typing import Any

from config import settings

NAMES = (
    "BROKER_CONNECTION_MAX_RETRIES",
    "BROKER_CONNECTION_RETRY_ON_STARTUP",
    "BROKER_POOL_ACQUIRE_TIMEOUT",
    "BROKER_TRANSPORT_OPTIONS",
    "BROKER_URL",
    "TASK_ACKS_LATE",
    "TASK_SERIALIZER",
    "ACCEPT_CONTENT",
    "WORKER_PREFETCH_MULTIPLIER",
    "WORKER_SEND_TASK_EVENTS",
)


def shared() -> dict[str, Any]:
    """Those settings by Celery's own names."""
    return {name.lower(): getattr(settings, f"CELERY_{name}") for name in NAMES}
