"""The Celery app: its settings are Django's, its tasks are the kinds of job."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("firedoor")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.set_default()  # in every thread, not only in the one that imported this
