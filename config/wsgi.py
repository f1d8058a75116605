"""The web process's entry point: ``gunicorn --config python:config.web config.wsgi``."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

application = get_wsgi_application()

from jobs.publish import serve_only  # noqa: E402  needs the apps that the line above has loaded

serve_only()  # a request never runs jobs, not even where there is no broker
