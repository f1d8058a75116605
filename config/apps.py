"""Makes config an installed app, for the commands that put all parts together."""

from django.apps import AppConfig
from django.conf import settings


class ConfigConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        from config import (
            celery,  # noqa: F401  the app must exist before the kinds become its tasks
            dead_letters,  # noqa: F401  it registers a receiver
            reporting,
            sqlite,  # noqa: F401  the same
            upkeep_faults,  # noqa: F401  the same
        )

        reporting.start(settings.SENTRY_DSN, settings.FIREDOOR_ENVIRONMENT)
