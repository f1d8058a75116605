"""What a request says about itself: Standard Webhooks' headers, and the tenant's own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.db.models import Q
from django.db.models.functions import Now

from webhooks.models import Endpoint, EndpointSecret
from webhooks.parcels import Parcel
from webhooks.sealing import unseal, unseal_headers
from webhooks.signing import sign
from workspaces.redaction import learn, secrets_in

AGENT = "firedoor-webhooks/1"
HEADERS_LIMIT = 10
VALUE_LIMIT = 1024
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_RESERVED = frozenset(
    "host connection transfer-encoding te trailer upgrade user-agent accept accept-encoding"
    " expect proxy-authorization proxy-connection keep-alive traceparent tracestate cookie".split()
)
_RESERVED_STARTS = ("webhook-", "content-")


class HeadersRefused(ValueError):
    """A header of the tenant's that must not be sent; its words say why, not its value."""


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise HeadersRefused unless all of them may go along."""
    if len(headers) > HEADERS_LIMIT:
        raise HeadersRefused(f"There are at most {HEADERS_LIMIT} headers.")
    if len({name.lower() for name in headers}) < len(headers):
        raise HeadersRefused("A header comes twice.")
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise HeadersRefused("A header's name has letters, digits and hyphens.")
        if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_STARTS):
            raise HeadersRefused(f"The header {name} is ours to set.")
        if len(value) > VALUE_LIMIT or not _VALUE.fullmatch(value):
            raise HeadersRefused(
                f"The value of {name} is 1 to {VALUE_LIMIT} printable ASCII characters."
            )


def live_secrets(endpoint: Endpoint) -> list[EndpointSecret]:
    """The secrets that sign now, the newest first."""
    live = Q(expires_at=None) | Q(expires_at__gt=Now())
    return list(endpoint.secrets.filter(live).order_by("-created_at", "-pk"))


def headers_of(parcel: Parcel, timestamp: int, attempt: int, traceparent: str) -> dict[str, str]:
    """All headers of one request. Raises Unsealable, and what ``sign`` raises.

    The values of the tenant's own are kept sealed: from now on this attempt hides them in whatever
    it keeps, since a receiver may send back what it was sent.
    """
    own = unseal_headers(parcel.headers)
    learn(secrets_in(own, ("*",)))
    secrets = [unseal(sealed) for sealed in parcel.secrets]
    signature = sign(secrets, parcel.message_id, timestamp, parcel.body)
    trace = {"traceparent": traceparent} if traceparent else {}
    return {
        **{name.lower(): value for name, value in own.items()},
        "content-type": "application/json",
        "user-agent": AGENT,
        "accept": "*/*",
        "accept-encoding": "identity",
        "webhook-id": parcel.message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature,
        "webhook-attempt": str(attempt),
        **trace,
    }
