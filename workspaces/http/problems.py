"""What an error looks like to a client: RFC 9457, with a stable code and what to do next.

`retry` has three words: `same_key` (send the very same request again, later), `new_key` (this
answer is kept under its Idempotency-Key; a new try needs a new key) and `none` (change the
request or what it is about first; the key is not used up).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from django.core.exceptions import (
    BadRequest,
    DisallowedHost,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.http import Http404, HttpRequest, JsonResponse
from django.http.request import UnreadablePostError
from rest_framework import exceptions
from rest_framework.request import Request

from workspaces.errors import FiredoorError
from workspaces.http import errors
from workspaces.outages import is_outage

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
PAGE = "/api/problems/"
KEPT = frozenset({409, 410})
"""Refusals with these statuses are kept under the request's key: work had begun."""


def retry_hint(error: FiredoorError | type[FiredoorError]) -> str:
    """One of `same_key`, `new_key`, `none`; an error may say so itself."""
    said: str | None = getattr(error, "retry", None)
    if said is not None:
        return said
    if error.status in KEPT:
        return "new_key"
    return "same_key" if error.status in (429, 503) else "none"


def is_kept(error: FiredoorError) -> bool:
    """Whether the same request with the same key gets this very answer again."""
    return error.status in KEPT and retry_hint(error) == "new_key"


def problem(error: FiredoorError, request: HttpRequest | Request) -> dict[str, Any]:
    """The body. Holds the error's sentence and members, which are safe to show."""
    request_id = request.headers.get("X-Request-ID", "")
    return {
        "type": _address(request, f"{PAGE}#{error.code}"),
        "title": title_of(error.code),
        "status": error.status,
        "detail": error.sentence,
        "instance": f"urn:request:{request_id}",
        "code": error.code,
        "retry": retry_hint(error),
        "request_id": request_id,
        **getattr(error, "members", {}),
    }


def _address(request: HttpRequest | Request, path: str) -> str:
    try:
        return request.build_absolute_uri(path)
    except DisallowedHost:  # then we do not know our own name
        return path


def title_of(code: str) -> str:
    """A code as words."""
    return code.replace("_", " ").capitalize()


def headers_of(error: FiredoorError) -> dict[str, str]:
    """The headers that belong to the status."""
    headers = {"Cache-Control": "no-store"}
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="firedoor"'
    seconds = getattr(error, "retry_after", 2 if error.status in (429, 503) else None)
    if seconds is not None:
        headers["Retry-After"] = str(max(1, seconds))
    return headers


def handled(exc: Exception, context: dict[str, Any]) -> JsonResponse:
    """DRF's exception handler: every error is a problem, and an unexpected one is logged."""
    error = known(exc)
    if error is None:
        logger.error("api.failed", exc_info=exc)
        error = errors.Internal()
    response = answered(error, context["request"])
    if isinstance(exc, exceptions.MethodNotAllowed):
        response["Allow"] = ", ".join(context["view"].allowed_methods)
    return response


def answered(error: FiredoorError, request: HttpRequest | Request) -> JsonResponse:
    """The problem as a response: JSON, whatever the request accepts."""
    body = problem(error, request)
    return JsonResponse(
        body, status=error.status, content_type=MEDIA_TYPE, headers=headers_of(error)
    )


def known(exc: Exception) -> FiredoorError | None:
    """The typed error that `exc` stands for; None for a fault of ours."""
    if isinstance(exc, FiredoorError):
        return exc
    if is_outage(exc):
        logger.warning("api.database_unavailable", exc_info=exc)
        return errors.Unavailable()
    for cls, make in _FOREIGN:
        if isinstance(exc, cls):
            typed: FiredoorError = make(exc)
            return typed
    return None


def _named(cls: type[FiredoorError]) -> Any:
    return lambda exc: cls(f"Nothing was done: {str(exc)[:300]}")


_FOREIGN: tuple[tuple[type[Exception], Any], ...] = (
    (exceptions.ValidationError, lambda exc: errors.InputInvalid(exc.detail)),
    (exceptions.ParseError, _named(errors.Malformed)),
    (exceptions.UnsupportedMediaType, _named(errors.MediaTypeRefused)),
    (exceptions.MethodNotAllowed, _named(errors.MethodRefused)),
    (exceptions.NotAcceptable, _named(errors.NotAcceptable)),
    (exceptions.NotAuthenticated, lambda _: errors.NotSignedIn()),
    (exceptions.AuthenticationFailed, lambda _: errors.TokenInvalid()),
    (exceptions.PermissionDenied, lambda _: errors.Forbidden()),
    (PermissionDenied, lambda _: errors.Forbidden()),
    (exceptions.NotFound, lambda _: errors.NoSuchPage()),
    (Http404, lambda _: errors.NoSuchPage()),
    (RequestDataTooBig, lambda _: errors.BodyTooLarge()),
    (UnreadablePostError, lambda _: errors.Malformed("Nothing was done: the body ended early.")),
    *(  # as Django would, such as for a query of more than a thousand parts
        (kind, lambda _: errors.Malformed("Nothing was done: the request is malformed."))
        for kind in (SuspiciousOperation, BadRequest)
    ),
)


def catalogue() -> Iterator[type[FiredoorError]]:
    """Every typed error that is loaded and has a code of its own, by its code."""
    found: list[type[FiredoorError]] = []
    waiting = FiredoorError.__subclasses__()
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if "code" in vars(cls):
            found.append(cls)
    return iter(sorted(found, key=lambda cls: cls.code))


def meaning_of(error: type[FiredoorError]) -> str:
    """What happened, in a sentence: the first line of the class's own words."""
    return (vars(error).get("__doc__") or "").partition("\n")[0]
