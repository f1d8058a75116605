"""How the web server is run wherever it is: ``gunicorn --config python:config.web config.wsgi``.

The names below are gunicorn's settings. What it refuses by itself, before there is a request that
Django could be asked about, is a problem with a code like every other refusal.
"""

from __future__ import annotations

import ssl
import uuid
from typing import TYPE_CHECKING, Any

from gunicorn import util
from gunicorn.http import errors as of_gunicorn
from gunicorn.workers.gthread import ThreadWorker

if TYPE_CHECKING:
    from workspaces.errors import FiredoorError

worker_class = "config.web.Worker"
# No header says where this site is mounted: a client's own would come through most proxies.
forwarder_headers = ""
# One header says whether the client spoke TLS. Two that differ would be refused.
secure_scheme_headers = {"X-FORWARDED-PROTO": "https"}


def pre_request(_worker: Any, request: Any) -> None:
    """Close after a body in chunks, which nobody reads.

    Where it ends wrongly gunicorn would refuse it after the answer, with a second one.
    """
    if any(name == "TRANSFER-ENCODING" for name, _ in request.headers):
        request.force_close()


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Gunicorn's worker with threads, with answers and logs that repeat nothing of what came.

    A head that cannot be read may hold a token where none belongs.
    """

    def handle_error(self, _request: Any, client: Any, address: Any, error: Exception) -> None:
        """Answer for what is no request, and for what the application let escape."""
        refusal = _refusal(error)
        if refusal.status < 500:
            ip = address[0] if address else "a socket"
            self.log.warning("Refused what %s sent: %s", ip, type(error).__name__)
        else:
            self.log.error("A request failed", exc_info=error)
        try:
            util.write_nonblock(client, _answer(refusal))
        except OSError as gone:
            self.log.debug("Nobody waits for the answer: %s", gone)


def _answer(refusal: FiredoorError) -> bytes:
    from django.http import HttpRequest  # the settings are not loaded when this file is

    from workspaces.http import problems

    request, request_id = HttpRequest(), uuid.uuid4().hex
    request.META |= {"HTTP_X_REQUEST_ID": request_id, "SERVER_NAME": "", "SERVER_PORT": "80"}
    response = problems.answered(refusal, request)
    response["X-Request-ID"] = request_id
    response["Content-Length"] = str(len(response.content))
    response["Connection"] = "close"
    status = f"HTTP/1.1 {response.status_code} {response.reason_phrase}\r\n".encode()
    return status + response.serialize_headers() + b"\r\n\r\n" + response.content


def _refusal(error: Exception) -> FiredoorError:
    from workspaces.http import errors

    match error:
        case of_gunicorn.InvalidResponseHeader() | of_gunicorn.InvalidResponseHeaderName():
            return errors.Internal()
        case of_gunicorn.ConfigurationProblem():  # an address outside of $SCRIPT_NAME
            return errors.NoSuchPage()
        case of_gunicorn.LimitRequestLine():
            return errors.AddressTooLong()
        case of_gunicorn.LimitRequestHeaders():
            return errors.HeadersTooLarge()
        case of_gunicorn.ExpectationFailed():
            return errors.ExpectationFailed()
        case of_gunicorn.UnsupportedTransferCoding():
            return errors.LengthRequired()
        case of_gunicorn.ParseException() | ssl.SSLError():
            return errors.NotHttp()
    return errors.Internal()
