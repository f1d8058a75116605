"""No kinds: this is read when all apps are there, which is when signals are connected."""

from __future__ import annotations

import time
from typing import Any

from celery import signals

START_SECONDS = 6.0  # Celery gives up on a child that takes longer than 4, for ever


@signals.worker_process_init.connect(weak=False)
def take_your_time(**_: Any) -> None:
    time.sleep(START_SECONDS)
