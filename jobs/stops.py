"""What ends or suspends a run from outside its handler.

All derive from ``BaseException``, so that ``except Exception`` in a handler cannot swallow them.
A handler must not catch them.
"""

from __future__ import annotations

from jobs.states import WaitReason


class Stop(BaseException):
    """Base of everything that stops a run without being a failure of its handler."""


class LeaseLost(Stop):
    """Another worker owns the job, or it is final: nothing more may be written."""


class CancelRequested(Stop):
    """Somebody asked to cancel; the run ends at this boundary."""

    def __init__(self) -> None:
        super().__init__("cancelled at a step boundary")


class DeadlinePassed(Stop):
    """No new work is begun after the job's deadline."""

    def __init__(self) -> None:
        super().__init__("the deadline passed at a step boundary")


class Uncertain(Stop):
    """A step's effect was started, no outcome is known, and nobody can be asked."""

    def __init__(self, step: str, why: str) -> None:
        super().__init__(f"step {step}: {why}")
        self.step = step
        self.why = why


class Defer(Stop):
    """Put the job back into the queue for ``delay`` seconds, without using any budget."""

    def __init__(
        self, delay: float, reason: str, *, wait: WaitReason = WaitReason.DEFERRED
    ) -> None:
        super().__init__(reason)
        self.delay = delay
        self.reason = reason
        self.wait = wait


class OutputUnusable(Stop):
    """A step is done, but its output could not be stored: the job cannot go on."""

    def __init__(self, step: str, why: str) -> None:
        super().__init__(f"step {step} is done, but {why}; it will not run again")
        self.step = step
        self.why = why
