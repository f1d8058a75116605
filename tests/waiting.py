"""How tests wait: for a condition, with a bound, never for luck."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 20, what: str = "") -> None:
    """Return once ``condition()`` is true; fail after ``seconds``, which is only a bound."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"Not within {seconds:.0f} s: {what or condition}")
        time.sleep(0.02)
