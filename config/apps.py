"""Makes config an installed app, for the commands that put all parts together."""

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "config"
