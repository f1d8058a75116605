from django.apps import AppConfig


class LifecycleConfig(AppConfig):
    name = "provisioning.lifecycle"
    label = "lifecycle"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from provisioning.lifecycle.closing import open_apply
        from workspaces import closing

        closing.register("lifecycle", check=open_apply)
