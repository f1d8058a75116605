from django.apps import AppConfig


class StacksConfig(AppConfig):
    name = "provisioning.stacks"
    label = "stacks"
