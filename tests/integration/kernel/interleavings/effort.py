"""How hard the machine tries: the same scenes every time, unless told otherwise.

``FIREDOOR_INTERLEAVINGS=500`` plays 500 batches of scenes from a random seed, which a failure
names; ``FIREDOOR_INTERLEAVINGS=1:4711`` plays the one of seed 4711 again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

from django.db import connection
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

# Up to ten scenes a seed: after these Hypothesis would mostly vary scenes that it has played.
BATCH = 9
TURNS = 40
LONG = "FIREDOOR_INTERLEAVINGS"
PATIENCE = 0 if LONG in os.environ else 900  # seconds; with the shrinking of a failure

EFFORT = settings(
    max_examples=BATCH,
    stateful_step_count=TURNS,
    deadline=None,
    database=None,
    print_blob=False,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


def play(scene: Callable[[], RuleBasedStateMachine]) -> None:
    """Play batches of scenes, each from its own seed. A failure is shrunk, and names its seed."""
    for number in _seeds():
        try:
            run_state_machine_as_test(seed(number)(scene), settings=EFFORT)  # type: ignore[arg-type]
        except BaseException as failure:
            failure.add_note(f"Play it again with {LONG}=1:{number}")
            raise


def _seeds() -> Iterator[int]:
    """By default what takes about a minute on one core, and less on SQLite."""
    default = "6:1" if connection.vendor == "postgresql" else "2:1"
    count, _, first = os.environ.get(LONG, default).partition(":")
    start = int(first) if first else random.SystemRandom().randrange(10**9)
    yield from range(start, start + int(count))
