from django.apps import AppConfig


class LifecycleConfig(AppConfig):
    name = "provisioning.lifecycle"
    label = "lifecycle"
