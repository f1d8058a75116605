"""The Django app of webhooks."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    """`webhooks` hears of everything through `jobs.events` alone."""

    name = "webhooks"
    label = "webhooks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the receiver, the verb of operations, and the part in closing."""
        import webhooks.receivers  # noqa: F401  the import is the registration
        from jobs.recovery import item_verbs
        from jobs.sweep import hourly
        from webhooks.backlog import look_again
        from webhooks.closing import stop_endpoints
        from webhooks.recover import VERB
        from webhooks.retention import prune
        from workspaces import closing

        item_verbs.register(VERB)
        hourly.connect(prune)
        hourly.connect(look_again)
        closing.register("webhooks", close=stop_endpoints)
