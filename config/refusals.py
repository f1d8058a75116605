"""What is answered where no view was reached, or none could answer."""

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.middleware.common import CommonMiddleware
from django.views import defaults

from workspaces.errors import FiredoorError
from workspaces.http import errors, problems

API = "/api/"


class AddressMiddleware(CommonMiddleware):
    """Django's, but an address of the API that lacks its slash is not found; nor is NUL looked for.

    Redirected, a POST would come back as a GET: it would list, and seem to have made something.
    PostgreSQL takes no NUL, and the console's lists ask it for whatever stands in an address or a
    cookie. The API's own filters say which of them holds one.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:  # type: ignore[override]
        if not _is_for_programs(request) and _holds_nul(request):
            return bad_request(request, SuspiciousOperation("NUL in an address or a cookie"))
        return super().process_request(request)

    def should_redirect_with_slash(self, request: HttpRequest) -> bool:
        return not _is_for_programs(request) and super().should_redirect_with_slash(request)


def no_such_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A problem for programs, Django's own page for people."""
    if _is_for_programs(request):
        return problems.answered(errors.NoSuchPage(), request)
    return defaults.page_not_found(request, exception)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Says what kind of mistake it was, and nothing of what was sent."""
    if not _is_for_programs(request):
        return defaults.bad_request(request, exception)
    error: FiredoorError = errors.Malformed("Nothing was done: the request is malformed.")
    if isinstance(exception, RequestDataTooBig):
        error = errors.BodyTooLarge()
    return problems.answered(error, request)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The same, for what is open to nobody here."""
    if _is_for_programs(request):
        return problems.answered(errors.Forbidden(), request)
    return defaults.permission_denied(request, exception)


def failed(request: HttpRequest) -> HttpResponse:
    """Says nothing of what went wrong; the log does."""
    if _is_for_programs(request):
        return problems.answered(errors.Internal(), request)
    return defaults.server_error(request)


def _holds_nul(request: HttpRequest) -> bool:
    query = request.META.get("QUERY_STRING", "")
    texts = (request.path_info, query, *request.COOKIES.values())
    return "%00" in query or any("\0" in text for text in texts)


def _is_for_programs(request: HttpRequest) -> bool:
    """Also where somebody has put one slash too many before it, or left the last one out."""
    return f"/{request.path.lstrip('/')}/".startswith(API)
