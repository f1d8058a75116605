"""The Django app of tenants, rights and audit."""

from django.apps import AppConfig


class WorkspacesConfig(AppConfig):
    """`workspaces` imports no other app of the product."""

    name = "workspaces"
    label = "workspaces"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from workspaces import checks

        checks.register()
