"""Django's settings of the project that keeps results with django-celery-results."""

import os
from typing import Any

import environ

SECRET_KEY = "used for nothing"  # noqa: S105
INSTALLED_APPS = ["django_celery_results"]
DATABASES: dict[str, Any] = {"default": environ.Env.db_url_config(os.environ["BENCH_DATABASE"])}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
