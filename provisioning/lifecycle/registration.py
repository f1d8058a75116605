"""How is a workspace made known to the registry? One call that carries our key.

The registry answers the same for the same `Idempotency-Key`, however often it is sent. Nothing
is caught: the kernel reads httpx2's exceptions, the status and `Retry-After`.
"""

from __future__ import annotations

import ssl
from datetime import timedelta
from functools import cache
from typing import Any

import httpx2
from django.conf import settings

from jobs.kinds import Terminal, outgoing_headers

REMEMBERS = timedelta(hours=24)
"""For how long the registry promises to know a key."""
_CONNECT_SECONDS = 3.0
_WAIT_SECONDS = 10.0


def register(key: str, slug: str) -> dict[str, Any]:
    """Register a workspace; `id` is what the registry calls it."""
    with httpx2.Client(
        base_url=address(),
        headers={**outgoing_headers(), "Idempotency-Key": key},
        timeout=httpx2.Timeout(_WAIT_SECONDS, connect=_CONNECT_SECONDS),
        follow_redirects=False,
        trust_env=False,
        verify=_tls(),
    ) as client:
        answer = client.post("/registrations", json={"workspace": slug})
    answer.raise_for_status()
    return {"id": str(answer.json()["id"])[:200]}


def address() -> str:
    """Return the registry's address: the setting, else that of this machine's example registry."""
    if settings.FIREDOOR_REGISTRY_URL:
        return str(settings.FIREDOOR_REGISTRY_URL)
    if (
        settings.FIREDOOR_EXAMPLES
        and (note := settings.FIREDOOR_EXAMPLES / "registry.url").exists()
    ):
        return note.read_text().strip()
    raise Terminal(
        "Nothing was registered: REGISTRY_URL is not set, and no example registry runs on this"
        " machine. Set it, or start `manage.py serve`; then retry from the failed step.",
        happened=False,
    )


@cache
def _tls() -> ssl.SSLContext:
    """One context a process: making it costs more than the call."""
    return ssl.create_default_context()
