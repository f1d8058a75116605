"""Signatures as Standard Webhooks 1.0.0 has them: HMAC-SHA256 over id, moment and body.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets as randomness
from collections.abc import Mapping, Sequence
from typing import Final

PREFIX: Final = "whsec_"
TOLERANCE: Final = 300
"""Seconds between the signature's moment and now, either way."""
_SHORTEST, _LONGEST = 24, 64
_VERSION = "v1"


class SecretInvalid(ValueError):
    """A secret that is no base64, or of fewer than 24 or more than 64 bytes. Not shown."""

    def __init__(self) -> None:
        super().__init__("the signing secret is not base64 of 24 to 64 bytes")


class SignatureInvalid(Exception):
    """The message was not signed by any of the secrets, or not at this time."""


def new_secret() -> str:
    """32 random bytes, as people copy them."""
    return PREFIX + base64.b64encode(randomness.token_bytes(32)).decode()


def sign(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: one signature for each secret, in their order.

    ``timestamp`` is in whole seconds. Raises SecretInvalid, and ValueError without any secret or
    for an id with a dot, which would make two messages sign alike.
    """
    if not secrets or "." in message_id or not message_id:
        raise ValueError("a message needs a secret, and an id without a dot")
    content = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(f"{_VERSION},{_signature(secret, content)}" for secret in secrets)


def verify(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, *, now: float) -> None:
    """Raise SignatureInvalid unless one of the secrets signed this at most 5 minutes from now.

    ``headers`` are read by their lower-case names. Compares in constant time. *Hole:* within
    those minutes a copy of the message verifies too: remember the ids you have seen.
    """
    message_id = headers.get("webhook-id", "")
    timestamp = _seconds(headers.get("webhook-timestamp", ""))
    if not message_id or abs(now - timestamp) > TOLERANCE:
        raise SignatureInvalid("the id is missing, or the time is too far from now")
    content = f"{message_id}.{timestamp}.".encode() + body
    wanted = [_signature(secret, content).encode() for secret in secrets]
    given = [
        signature.encode()
        for version, _, signature in (
            part.partition(",") for part in headers.get("webhook-signature", "").split(" ")
        )
        if version == _VERSION
    ]
    if not any(hmac.compare_digest(one, other) for one in wanted for other in given):
        raise SignatureInvalid("no signature is right")


def _signature(secret: str, content: bytes) -> str:
    return base64.b64encode(hmac.digest(_key(secret), content, hashlib.sha256)).decode()


def _key(secret: str) -> bytes:
    text = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise SecretInvalid from None
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise SecretInvalid
    return key


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 12):
        raise SignatureInvalid("the time is not a number of seconds")
    return int(text)
