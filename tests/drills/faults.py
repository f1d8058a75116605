"""What can go wrong right after an effect, by name."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
from celery.exceptions import Ignore, Reject, Retry

from jobs.kinds import RateLimited, Terminal, Transient
from jobs.params import OUTPUT_LIMIT


class ProviderError(Exception):
    """An HTTP answer as any client library raises it."""

    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status}")
        self.response = httpx2.Response(status, headers=headers or {})


class Odd(Exception):
    """An error that no other process could make again, since it does not keep its arguments."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__()
        self.code, self.detail = code, detail

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


def _raise(error: BaseException) -> Any:
    raise error


def _kill() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _stall() -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.05)


FAULTS: dict[str, Callable[[], Any]] = {
    "none": lambda: {"ok": True},
    "key_error": lambda: dict[str, Any]()["missing"],
    "not_json": lambda: {"when": object()},
    "too_large": lambda: "x" * (OUTPUT_LIMIT - 1),
    "nul": lambda: {"text": "a\x00b"},
    "http_502": lambda: _raise(ProviderError(502)),
    "http_404": lambda: _raise(ProviderError(404)),
    "http_429": lambda: _raise(ProviderError(429, {"Retry-After": "7"})),
    "rate_limited": lambda: _raise(RateLimited("slow down", retry_after=9)),
    "refused": lambda: _raise(ConnectionRefusedError("nobody listens")),
    "reset": lambda: _raise(ConnectionResetError("cut")),
    "transient": lambda: _raise(Transient("try again")),
    "surely_not": lambda: _raise(Transient("not sent", happened=False)),
    "terminal": lambda: _raise(Terminal("never")),
    "odd": lambda: _raise(Odd(7, detail="of its own")),
    "celery_reject": lambda: _raise(Reject("no", requeue=True)),
    "celery_ignore": lambda: _raise(Ignore()),
    "celery_retry": lambda: _raise(Retry("later")),
    "exit": lambda: sys.exit(3),
    "kill": _kill,
    "stall": _stall,
}


def strike(fault: str, once_file: str = "") -> Any:
    """Let ``fault`` happen; with ``once_file``, only the first time it is asked."""
    if once_file:
        marker = Path(once_file)
        if marker.exists():
            return FAULTS["none"]()
        marker.touch()
    return FAULTS[fault]()
