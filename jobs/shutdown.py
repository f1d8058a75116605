"""How a worker's children learn that it is stopping: one byte of memory shared before the fork.

Celery's own signal comes too late in some ways of stopping, and a cold shutdown, a SIGTERM to the
whole group and the hard time limit all reach a task as ``SystemExit``; this flag tells them apart.
A running job stops at its next step boundary and goes back to the queue, using no budget. A
``SystemExit`` that no signal brought is a failure of the code that raised it: see ``ends_process``.
"""

from __future__ import annotations

import mmap
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

_FLAG = mmap.mmap(-1, 1)
_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGHUP)


class Vanished(BaseException):
    """What a test raises to act as a process that is gone: nobody handles it."""


def asked() -> bool:
    """Whether this worker was asked to stop. Free: reads one byte."""
    return _FLAG[0] == 1


def asked_soon(seconds: float = 0.05) -> bool:
    """The same, waiting a moment: a signal to the whole group may reach a child first."""
    until = time.monotonic() + seconds
    while not asked() and time.monotonic() < until:
        time.sleep(0.005)  # noqa: TID251  bounded by ``seconds``
    return asked()


def ask() -> None:
    _FLAG[0] = 1


def forget() -> None:
    _FLAG[0] = 0


def not_struck() -> bool:
    """Nobody knows better than that no stop signal has struck this very process."""
    return False


struck: Callable[[], bool] = not_struck  # celery's pool knows of its children; see ``jobs.tasks``


def ends_process(error: BaseException) -> bool:
    """Whether an exception means that this process is being ended, and not that code failed.

    ``sys.exit`` in a handler or a library, a ``KeyboardInterrupt`` that no Ctrl-C can have brought,
    a cancelled coroutine: those are failures. *Hole:* with Ctrl-C possible, in the main thread of a
    command, a ``KeyboardInterrupt`` of the code's own is taken for one.
    """
    if isinstance(error, SystemExit):
        return asked() or struck()
    if isinstance(error, KeyboardInterrupt):
        main = threading.current_thread() is threading.main_thread()
        return main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    return isinstance(error, Vanished)


def watch_signals() -> None:
    """Set the flag when a stop signal comes, then do what the installed handler does."""
    for number in _SIGNALS:
        installed = signal.getsignal(number)
        if callable(installed) and not getattr(installed, "sets_flag", False):
            signal.signal(number, _setting_flag(installed))


def _setting_flag(installed: Callable[[int, FrameType | None], Any]) -> Callable[..., Any]:
    def handler(number: int, frame: FrameType | None) -> Any:
        ask()
        return installed(number, frame)

    handler.sets_flag = True  # type: ignore[attr-defined]
    return handler
