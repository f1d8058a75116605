"""Makes the console the site that every app's ``admin`` registers with."""

from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AdminConfig):
    default_site = "config.console.site.ConsoleSite"
