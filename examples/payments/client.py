"""The calls that the payment kinds make, on httpx2.

Each call carries the ids of the request that led to it. Nothing is caught or renamed: the kernel
reads httpx2's own exceptions and the status and ``Retry-After`` of an answer. Redirects are
errors, since following one would send a charge to a place nobody chose, and the environment's
proxies are ignored. *Hole:* the timeout bounds each wait on the socket, not the whole call; a
provider that sends a byte now and then is ended only by the kind's time limit.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import httpx2
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from jobs.kinds import outgoing_headers

CONNECT_SECONDS = 3.0
WAIT_SECONDS = 10.0


@dataclass(frozen=True)
class Search:
    """The charges found. Of calls that arrived after ``complete_until`` absence proves nothing.

    That moment is by the provider's clock.
    """

    charges: list[dict[str, Any]]
    complete_until: datetime


def hold(key: str, order_id: str) -> dict[str, Any]:
    """Reserve; the provider answers the same for the same ``key``, for as long as it knows it."""
    return _call("POST", "/holds", json={"order_id": order_id}, headers={"Idempotency-Key": key})


def charge(hold: str, cents: int) -> dict[str, Any]:
    """Charge. Every call that reaches the provider charges again."""
    return _call("POST", "/charges", json={"hold": hold, "cents": cents})


def charges(hold: str) -> Search:
    """Search the charges on a hold."""
    found = _call("GET", "/charges", params={"hold": hold})
    return Search(found["charges"], datetime.fromisoformat(found["complete_until"]))


def send_receipt(payment: str) -> dict[str, Any]:
    """Send a receipt; a second one is a nuisance, not a harm."""
    return _call("POST", "/receipts", json={"payment": payment})


def refund(payment: str) -> dict[str, Any]:
    """Pay back. Every call that reaches the provider pays back again, and none can be found."""
    return _call("POST", "/refunds", json={"payment": payment})


def provider_url() -> str:
    """Where the provider listens: the setting ``PAYMENTS_URL``, else the environment's.

    Else the one that ``manage.py serve`` or ``demo`` has started on this machine.
    """
    url = getattr(settings, "PAYMENTS_URL", None) or os.environ.get("PAYMENTS_URL")
    examples = settings.FIREDOOR_EXAMPLES
    if not url and examples and (note := examples / "payments.url").exists():
        url = note.read_text().strip()
    if not url:
        raise ImproperlyConfigured(
            "No payment was tried: PAYMENTS_URL is not set. Start one with"
            " `python -m examples.payments.provider --ledger FILE` and set it to what it prints."
        )
    return str(url)


def _call(
    method: str,
    path: str,
    *,
    json: dict[str, Any] | None = None,
    params: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    with httpx2.Client(
        base_url=provider_url(),
        headers={**outgoing_headers(), **(headers or {})},
        timeout=httpx2.Timeout(WAIT_SECONDS, connect=CONNECT_SECONDS),
        follow_redirects=False,
        trust_env=False,
        verify=_tls(),
    ) as client:
        answer = client.request(method, path, json=json, params=params)
    answer.raise_for_status()
    body: dict[str, Any] = answer.json()
    return body


@cache
def _tls() -> ssl.SSLContext:
    """One context a process: making it costs more than the call."""
    return ssl.create_default_context()
