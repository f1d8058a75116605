"""What is answered where no view was reached, or none could answer."""

from django.http import HttpRequest, HttpResponse
from django.views import defaults

from workspaces.http import errors, problems

API = "/api/"


def no_such_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A problem for programs, Django's own page for people."""
    if request.path.startswith(API):
        return problems.answered(errors.NoSuchPage(), request)
    return defaults.page_not_found(request, exception)


def failed(request: HttpRequest) -> HttpResponse:
    """Says nothing of what went wrong; the log does."""
    if request.path.startswith(API):
        return problems.answered(errors.Internal(), request)
    return defaults.server_error(request)
