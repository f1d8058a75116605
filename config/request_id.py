"""One id for everything a request causes: its log lines, its audit rows, its answer."""

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from structlog.contextvars import bound_contextvars

from jobs.tracing import Trace, carrying, well_formed

WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{8,64}")


class RequestIdMiddleware:
    """Gives every request and its response an ``X-Request-ID``.

    The caller's own id is kept when it is 8 to 64 letters, digits, ``.``, ``_`` or ``-``, otherwise
    replaced. Views read it from ``request.headers["X-Request-ID"]``. Jobs that are enqueued
    meanwhile carry it, and the caller's ``traceparent``.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = request.headers.get("X-Request-ID", "")
        if not WELL_FORMED.fullmatch(request_id):
            request_id = uuid.uuid4().hex
        request.META["HTTP_X_REQUEST_ID"] = request_id
        request.__dict__.pop("headers", None)  # Django caches them on first read
        trace = Trace(request_id, well_formed(request.headers.get("traceparent", "")))
        with bound_contextvars(request_id=request_id), carrying(trace):
            response = self.get_response(request)
        response["X-Request-ID"] = request_id
        return response
