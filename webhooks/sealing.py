"""Secrets at rest: sealed with keys of their own, the newest first.

*Hole:* whoever has the keys and the database reads them: signing needs the value.
"""

from __future__ import annotations

import json
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class Unsealable(Exception):
    """No key here opens it. Never shown, never signed with."""


def _box() -> MultiFernet:
    return _of(tuple(settings.WEBHOOK_SEALING_KEYS))


@lru_cache(maxsize=1)
def _of(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def seal(text: str) -> str:
    """The text, sealed with the newest key."""
    return _box().encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """The text again. Raises Unsealable."""
    try:
        return _box().decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise Unsealable from None


def sealed_again(sealed: str) -> str:
    """The same, sealed with the newest key. Raises Unsealable."""
    try:
        return _box().rotate(sealed.encode()).decode()
    except InvalidToken:
        raise Unsealable from None


def seal_headers(headers: dict[str, str]) -> str:
    """The tenant's headers, sealed; empty for none."""
    return seal(json.dumps(headers)) if headers else ""


def unseal_headers(sealed: str) -> dict[str, str]:
    """The tenant's headers. Raises Unsealable."""
    found: dict[str, str] = json.loads(unseal(sealed)) if sealed else {}
    return found
