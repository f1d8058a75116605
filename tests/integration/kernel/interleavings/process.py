"""A worker process as the scheduler holds it: a thread that runs the real runner a hop at a time.

It waits before each step, inside each step that talks to the outside, and before it closes its
attempt. Only one thread ever runs, so an interleaving is exactly the order of the hops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from django.conf import settings
from django.db import connection

from jobs.journal import Journal
from jobs.run import Run
from jobs.shutdown import Vanished
from jobs.worker import unlimited

_PATIENCE = 600.0  # a machine may be suspended
_local = threading.local()


@dataclass(frozen=True)
class Place:
    """Where a worker waits: before a ``step``, ``inside`` one, ``closing``, or ``idle``."""

    at: str
    step: str = ""


IDLE = Place("idle")
CLOSING = Place("closing")


@dataclass(frozen=True)
class Order:
    """How a worker goes on: what the next piece of its handler's code does.

    ``do`` is go (return, from inside), fail, defer, exit, unstorable, die, or cut (die where the
    checkpoint would be written); ``error`` names the failure, ``swallow`` lets the handler carry
    on after it; ``answer`` is what a ``reconcile`` that is asked says: the truth, unsure or broken.
    """

    do: str = "go"
    error: str = ""
    swallow: bool = False
    answer: str = "truth"
    output: object = None


class Died(Vanished):
    """The process is gone: nobody handles this."""


class Process:
    """One worker process after another on one host, with one database session."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.births = 0
        self.name = ""
        self.born()
        self.order = Order()
        self.key = ""
        self.place = IDLE
        self.run: Run | None = None
        self.journal: Journal | None = None
        self._orders: SimpleQueue[Any] = SimpleQueue()
        self._reports: SimpleQueue[Any] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=host, daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return self.host

    def born(self) -> None:
        """Start anew, under a name that no process had before."""
        self.births += 1
        name = f"{self.host}/boot/1/{self.births}/1"
        self.name = unlimited(name) if settings.FIREDOOR_INLINE else name
        self.stopping = False
        self.run = self.journal = None

    # --- for the scheduler

    def begins(self, work: Callable[[], object]) -> Place:
        """Do ``work`` up to the first place where it waits."""
        return self._told(work)

    def goes_on(self, order: Order) -> Place:
        """Let it go on from where it waits; where it waits next. Raises what it raised."""
        return self._told(order)

    def ends(self) -> None:
        """End the thread for good."""
        if self.place != IDLE:
            self.goes_on(Order("die"))
        self._orders.put(None)
        self._thread.join(_PATIENCE)
        assert not self._thread.is_alive()

    def _told(self, what: object) -> Place:
        self._orders.put(what)
        report = self._reports.get(timeout=_PATIENCE)
        if isinstance(report, BaseException):
            self.place = IDLE
            raise report
        self.place = report
        return self.place

    # --- for the thread

    def waits(self, place: Place) -> Order:
        """Wait for an order. Raises Died if that is the order."""
        self._reports.put(place)
        self.order = self._orders.get()
        if self.order.do == "die":
            raise Died
        return self.order

    def _serve(self) -> None:
        _local.process = self
        while (work := self._orders.get()) is not None:
            try:
                work()
            except (Died, SystemExit):
                self._reports.put(IDLE)
            except BaseException as error:  # noqa: BLE001  raised again in the test's own thread
                self._reports.put(error)
            else:
                self._reports.put(IDLE)
        connection.close()


def here() -> Process:
    """The process that this thread is."""
    process: Process = _local.process
    return process


def is_here() -> bool:
    """Whether this thread is such a process."""
    return hasattr(_local, "process")
