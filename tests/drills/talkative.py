"""A kind that speaks in every way that handlers and libraries do, and then may fail."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import structlog

from jobs.kinds import Run, job_kind, step
from tests.drills.faults import strike

library = logging.getLogger("some.library")


@step("speak")
def speak(run: Run, card: dict[str, Any], fault: str, once_file: str) -> Any:
    run.log.info("said by the run")
    run.log.info("the card is %s", card["number"])
    library.warning("said by a library, about %r", card)
    library.info("said\nin two lines", extra={"attempt": "of its own", "password": card["number"]})
    structlog.get_logger("ours").info("said.by_structlog", number=card["number"])
    print("said to nobody", card["number"])  # noqa: T201  careless handlers do
    warnings.warn(f"said as a warning, {card['number']}", stacklevel=1)
    try:
        raise ValueError(f"no such card: {card['number']}")
    except ValueError:
        library.exception("said with a traceback")
    return strike(fault, once_file)


@job_kind(
    "drills.talkative", steps=(speak,), redact=("card.number",), max_retries=1, retry_jitter=False
)
def talkative(
    run: Run, *, card: dict[str, Any], fault: str = "none", once_file: str = ""
) -> dict[str, Any]:
    run(speak, run, card, fault, once_file)
    return {"spoken": True}
