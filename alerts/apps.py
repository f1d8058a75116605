"""The Django app of alerts."""

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    """`alerts` hears of jobs through `jobs.events` alone."""

    name = "alerts"
    label = "alerts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the receivers."""
        import alerts.receivers  # noqa: F401  the import is the registration
