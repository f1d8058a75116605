"""No page is kept by a browser or a proxy: it may show what its next reader may not see."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


class NoStoreMiddleware:
    """Adds ``Cache-Control: no-store`` to every response that says nothing about caching.

    Stands below whitenoise, whose files may be kept. A view's decorator would miss refusals:
    404 and 403 are made after the view has raised.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.setdefault("Cache-Control", "no-store")
        return response
