"""The Celery app: its settings are Django's, its tasks are the kinds of job, its log is ours."""

import logging
import os
from typing import Any

from celery import Celery, signals
from celery.utils.log import get_multiprocessing_logger

from config import broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

broker.tolerate()
app = Celery("firedoor")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.set_default()  # in every thread, not only in the one that imported this


@signals.setup_logging.connect(weak=False)
def log_as_django_does(**_: Any) -> None:
    """Keep Django's LOGGING in workers and beat: one form, and the level of LOG_LEVEL.

    Celery would set the level by its own option, which is WARNING when nobody gives it, and write
    some lines in a form of its own. What a handler prints becomes a line as well.
    """
    get_multiprocessing_logger()  # sets itself apart, once
    logger = logging.getLogger("multiprocessing")
    logger.propagate = True
    logger.setLevel(logging.WARNING)
    # By name: the number reaches the children as text that Celery cannot read there.
    app.log.redirect_stdouts("WARNING")  # type: ignore[arg-type]
