"""How a call to the provider is made to go wrong, as data that travels over HTTP."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from jobs.worker import is_gone

Route = Literal["POST /holds", "POST /charges", "GET /charges", "POST /receipts", "POST /refunds"]
ROUTES: tuple[Route, ...] = get_args(Route)


class Fault(BaseModel):
    """What happens to one call instead of a good answer. ``Fault()`` changes nothing.

    Times are in seconds. The order is: ``stall_before``, the effect, ``stall_after``, the answer.
    A client that has given up meanwhile does not stop the effect, as with a real provider.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    status: int | None = Field(default=None, ge=200, le=599)
    """Answer this status with ``body`` instead of the true answer."""
    body: Any = None
    """JSON, or a string that is sent as it is. Used only with ``status``."""
    retry_after: int | str | None = None
    """The Retry-After header: seconds, or an HTTP date."""
    drop: bool = False
    """Close the connection without an answer."""
    effect: bool | None = None
    """Whether the call does its work. Unset: it does, unless ``status`` or ``drop`` is set."""
    stall_before: float = Field(default=0.0, ge=0)
    stall_after: float = Field(default=0.0, ge=0)
    times: int | None = Field(default=1, ge=1)
    """For how many calls; None is for all, until the script is replaced."""
    while_alive: str = ""
    """A process of this machine, as ``jobs.worker`` names it: the fault is gone when that is."""

    @property
    def works(self) -> bool:
        """Whether the effect happens under this fault."""
        return not (self.status or self.drop) if self.effect is None else self.effect


class Script:
    """The faults that wait on each route. Safe to use from many threads."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Fault]] = {}
        self._lock = threading.Lock()

    def replace(self, route: str, faults: Sequence[Fault]) -> None:
        """Forget what waits on ``route`` and let ``faults`` meet its next calls, in order."""
        with self._lock:
            self._waiting[route] = deque(faults)

    def next(self, route: str) -> Fault:
        """The fault for one call of ``route``; a harmless one when none waits."""
        with self._lock:
            waiting = self._waiting.get(route)
            while waiting and is_gone(waiting[0].while_alive):
                waiting.popleft()
            if not waiting:
                return Fault()
            fault = waiting.popleft()
            if fault.times is None:
                waiting.appendleft(fault)
            elif fault.times > 1:
                waiting.appendleft(fault.model_copy(update={"times": fault.times - 1}))
            return fault
