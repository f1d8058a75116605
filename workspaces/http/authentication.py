"""Who calls: a bearer token, and a bound on how often bad ones may come from one address."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.core.cache import cache
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission

from workspaces.http.errors import NotSignedIn, TokenInvalid, TooManyFailures
from workspaces.tokens import bearer_of

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView

    from workspaces.actors import Actor
    from workspaces.tokens import Accepted

logger = logging.getLogger(__name__)

FAILURES = 20
WINDOW = 300
"""Seconds."""


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer <token>`; `request.user` is the Actor, `request.auth` is Accepted.

    After 20 bad tokens in 5 minutes from one address further bad ones from there get 429 instead
    of 401; a good one always passes. *Hole:* behind a proxy that hides its clients all of them
    share one address; while the cache is out of reach nothing is counted.
    """

    def authenticate(self, request: Request) -> tuple[Actor, Accepted] | None:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return None
        found = bearer_of(text.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            _count_failure(request.META.get("REMOTE_ADDR", ""))
            raise TokenInvalid
        return found

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="firedoor"'


class SignedIn(BasePermission):
    """Refuses requests without a token."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if request.auth is None:
            raise NotSignedIn
        return True


def counter_of(address: str) -> str:
    """The name in the cache under which the failures of an address are counted."""
    return f"token-failures:{address}"


def _count_failure(address: str) -> None:
    name = counter_of(address)
    try:
        cache.add(name, 0, WINDOW)
        count = cache.incr(name)
    except Exception as error:  # noqa: BLE001  no cache, no count; the token is refused anyway
        logger.warning("api.failures_not_counted", extra={"error": str(error)})
        return
    if count > FAILURES:
        raise TooManyFailures(WINDOW)
