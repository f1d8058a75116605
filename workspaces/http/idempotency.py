"""How a view answers a request with an Idempotency-Key once, and repeats that answer.

Order: who calls and what they may do (again at each repetition), the key's form, the record, the
input, the work, the answer. See `workspaces.idempotency` for what commits with what.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import Error, transaction
from django.http import HttpResponse
from django.utils.http import http_date
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

from workspaces import audit, idempotency
from workspaces.errors import FiredoorError
from workspaces.http import errors, problems
from workspaces.http.parsing import Sent, whole_body
from workspaces.idempotency import Asked
from workspaces.models import IdempotencyRecord
from workspaces.outages import is_contention, is_lost_connection

if TYPE_CHECKING:
    from rest_framework.request import Request

    from workspaces.http.views import WorkspaceView

logger = logging.getLogger(__name__)

TRIES = 3
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
ORIGINAL_DATE = "Idempotency-Original-Date"
KEPT_HEADERS = ("Content-Type", "Content-Language", "Location", "ETag", "Link")
_KEY = re.compile(r"[A-Za-z0-9._:~+/=-]{8,255}")

View = TypeVar("View", bound="WorkspaceView")


@dataclass(frozen=True)
class Worked:
    """What is answered, and the statement that its transaction ends with."""

    response: HttpResponse
    last: Callable[[], None] = lambda: None


def idempotent(work: Callable[..., Response]) -> Callable[..., HttpResponse]:
    """Let a view's method be repeated safely by clients that send an Idempotency-Key.

    The method does its work in a transaction that also keeps its answer; it must not call
    anything outside the database, and may be called again after a deadlock. Refusals with 409 or
    410 are kept too, all others leave the key unused. The same key with another request gets
    422, and one that is still being answered 409 with `Retry-After`. Without a key the method
    just runs, in a transaction, unless the view says `needs_key`: then it is refused. Whoever
    accepts no JSON is refused, but told what is kept.
    """

    @wraps(work)
    def once(view: View, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        def fresh() -> HttpResponse:
            return _rendered(work(view, request, *args, **kwargs))

        def bounded() -> Worked:
            idempotency.bound_waiting()
            return Worked(fresh())

        if view.key is None and view.needs_key:
            raise errors.IdempotencyKeyMissing
        if view.key is None:
            return _told_once(view, _in_one_transaction(bounded, repeatable=False))
        sent = view.sent = _sent(request)
        asked = _asked(view, sent)

        def refused() -> HttpResponse:
            return _or_refused(view, request, fresh)

        try:
            try:
                answer = _with_record(view, asked, sent, fresh)
            except FiredoorError as error:
                if not problems.is_kept(error):
                    raise
                # All of it was undone; again, and this time a refusal is an answer to keep.
                answer = _with_record(view, asked, sent, refused)
            return _told_once(view, answer)
        except idempotency.StillBeingAnswered:
            raise errors.InProgress from None

    once.idempotent = True  # type: ignore[attr-defined]  # for the schema
    return once


def _told_once(view: WorkspaceView, answer: HttpResponse) -> HttpResponse:
    """The answer with what no repetition tells again: it is kept nowhere."""
    if view.told_once is not None and answer.status_code < 300:
        answer.content = JSONRenderer().render({**json.loads(answer.content), **view.told_once})
    return answer


def key_of(request: Request) -> str | None:
    """The key that came, without its quotes; None where there is none, or the method is safe.

    Raises IdempotencyKeyInvalid.
    """
    key = well_formed_key(request)
    if key is None and HEADER in request.headers and request.method not in SAFE:
        raise errors.IdempotencyKeyInvalid
    return key


def well_formed_key(request: Request) -> str | None:
    """The same, but None also where what came is no key.

    Two header lines arrive joined by a comma, which no key has.
    """
    if request.method in SAFE:
        return None
    bare = request.headers.get(HEADER, "").strip()
    if len(bare) > 1 and bare[0] == bare[-1] == '"':
        bare = bare[1:-1]
    return bare if _KEY.fullmatch(bare) else None


def _in_one_transaction(work: Callable[[], Worked], *, repeatable: bool) -> HttpResponse:
    """Do it, three times at most if others are in the way; what is returned is committed."""
    for left in reversed(range(TRIES)):
        worked, done = None, False
        try:
            with transaction.atomic():
                worked = work()
                worked.last()  # from here on it may be committed
                done = True
            break
        except Error as error:
            if left and is_contention(error):
                continue
            if worked is not None and is_lost_connection(error):
                raise errors.OutcomeUnknown(repeatable=repeatable) from error
            raise
        except Exception:
            if not done:
                raise
            logger.exception("api.failed_after_commit")  # the deed is done all the same
            break
    if worked is None:
        raise AssertionError("unreachable")
    return worked.response


def _sent(request: Request) -> Sent:
    media_type = (request.content_type or "").partition(";")[0].strip().lower()
    query = request.META["QUERY_STRING"]
    return Sent(request.method or "", request.path, query, media_type, whole_body(request))


def _asked(view: WorkspaceView, sent: Sent) -> Asked:
    return Asked(
        workspace_id=view.workspace.pk,
        principal=view.actor.id,
        key=view.key or "",
        fingerprint=sent.fingerprint(),
        method=sent.method,
        path=sent.path,
        request_id=view.request_id,
    )


def _with_record(
    view: WorkspaceView, asked: Asked, sent: Sent, work: Callable[[], HttpResponse]
) -> HttpResponse:
    return _in_one_transaction(lambda: _answered(view, asked, sent, work), repeatable=True)


def _answered(
    view: WorkspaceView, asked: Asked, sent: Sent, work: Callable[[], HttpResponse]
) -> Worked:
    record = idempotency.claim(asked)
    if isinstance(record, IdempotencyRecord):
        return _replayed(record, asked, sent)
    if view.unacceptable is not None:
        raise view.unacceptable
    response = work()
    kept = {name: response[name] for name in KEPT_HEADERS if name in response}
    answer = (response.status_code, kept, response.content, view.job_id)
    response[REPLAYED] = "false"
    return Worked(response, partial(idempotency.answer, record, *answer))


def _or_refused(
    view: WorkspaceView, request: Request, work: Callable[[], HttpResponse]
) -> HttpResponse:
    """What comes of the work; a refusal that is kept leaves none of it."""
    try:
        with transaction.atomic():
            return work()
    except FiredoorError as error:
        if not problems.is_kept(error):
            raise
        audit.record_refusal(error, view.attempt(error))
        return problems.answered(error, request)


def _replayed(record: IdempotencyRecord, asked: Asked, sent: Sent) -> Worked:
    if not _is_same(record, sent):
        raise errors.IdempotencyKeyReused(record.method, record.path, record.created_at.isoformat())
    response = HttpResponse(bytes(record.body), status=record.status, headers=record.headers)
    response[REPLAYED] = "true"
    response[ORIGINAL_DATE] = http_date(record.created_at.timestamp())
    return Worked(response, partial(idempotency.note_replay, record, asked.request_id))


def _is_same(record: IdempotencyRecord, sent: Sent) -> bool:
    """Compared as the record was made. A newer process' way is not known here: ask that one."""
    version = record.fingerprint.partition(":")[0]
    try:
        return record.fingerprint == sent.fingerprint(version)
    except KeyError:
        raise errors.InProgress from None


def _rendered(response: Response) -> HttpResponse:
    """The answer as bytes, now: what is kept is what was sent."""
    body = b"" if response.data is None else JSONRenderer().render(response.data)
    headers = dict(response.items())
    headers["Content-Type"] = "application/json"
    return HttpResponse(body, status=response.status_code, headers=headers)
