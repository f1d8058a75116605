"""The example services of a machine of one's own: the registry and the payment provider.

Who starts one notes where it listens in a file in FIREDOOR_VAR, ``registry.url`` for instance, and
their clients look there when no address is configured: so jobs find it, whichever process runs
them. Ledgers are kept there too, so a service that is started again knows every key. In a
deployment there is none of this.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import httpx2
from django.conf import settings

from examples.payments.provider import Provider
from examples.registry.server import Registry


class Service(Protocol):
    """A server that knows its address."""

    @property
    def url(self) -> str: ...
    def serve_forever(self, poll_interval: float = 0.5) -> None: ...
    def shutdown(self) -> None: ...
    def server_close(self) -> None: ...


_SERVICES: dict[str, Callable[[Path], Service]] = {"registry": Registry, "payments": Provider}
_started: list[Service] = []


def start_all() -> None:
    """Start what is not configured, for the life of this process; nothing in a deployment."""
    if settings.FIREDOOR_EXAMPLES is not None:
        _started.extend(_start(name) for name in _SERVICES if configured(name) is None)


@contextmanager
def available(name: str) -> Iterator[str]:
    """The address of a service: the configured one, the one that answers, or one for the block."""
    url = configured(name) or _announced(name)
    if url is not None and answers(url):
        yield url
        return
    service = _start(name)
    try:
        yield service.url
    finally:
        service.shutdown()
        service.server_close()
        if _announced(name) == service.url:
            _note(name).unlink(missing_ok=True)


def configured(name: str) -> str | None:
    """The address that somebody has set, if any."""
    if name == "registry":
        return settings.FIREDOOR_REGISTRY_URL
    return os.environ.get("PAYMENTS_URL") or None


def answers(url: str) -> bool:
    """Whether an example service listens there."""
    try:
        return httpx2.get(f"{url}/requests", trust_env=False).status_code == httpx2.codes.OK
    except httpx2.HTTPError:
        return False


def ledger(name: str) -> Path:
    """Where a service that was started here keeps what it did."""
    return _folder() / f"{name}.jsonl"


def _start(name: str) -> Service:
    service = _SERVICES[name](ledger(name))
    threading.Thread(target=service.serve_forever, args=(0.05,), daemon=True, name=name).start()
    draft = _note(name).with_suffix(f".{os.getpid()}")
    draft.write_text(f"{service.url}\n")
    draft.replace(_note(name))
    return service


def _announced(name: str) -> str | None:
    try:
        return _note(name).read_text().strip()
    except FileNotFoundError:
        return None


def _note(name: str) -> Path:
    return _folder() / f"{name}.url"


def _folder() -> Path:
    folder: Path | None = settings.FIREDOOR_EXAMPLES
    if folder is None:
        raise RuntimeError("a deployment has no example services")
    return folder
