"""One answer per key: the record of a request, its work and its answer commit together.

The record is inserted first. Whoever sends the same key meanwhile waits on the unique index, at
most 2 s; afterwards they find the answer, or nothing if the work was rolled back, and then the
work is theirs. So a crash at any point leaves either nothing or everything.
*Hole:* a key means "the same request" for 24 hours; a job's own key protects for as long as the
job is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now

from workspaces import sql
from workspaces.models import IdempotencyRecord
from workspaces.outages import is_lock_timeout

KEPT: Final = timedelta(hours=24)
WAIT_SECONDS: Final = 2
BODY_LIMIT: Final = 64 * 1024
PRUNED_AT_ONCE: Final = 1000

_INSERT = """
INSERT INTO workspaces_idempotencyrecord (
    workspace_id, principal, key, fingerprint, method, path, headers, body, request_id,
    last_request_id, replays, created_at, expires_at)
SELECT %(workspace)s, %(principal)s, %(key)s, %(fingerprint)s, %(method)s, %(path)s, '{{}}',
    %(empty)s, %(request_id)s, '', 0, @now, @after(kept) {source}
ON CONFLICT (workspace_id, principal, key) DO NOTHING
RETURNING id
"""
# The wait is bounded inside the statement itself, which spares a round trip; the setting is read
# when the wait begins, after the source has been evaluated.
_POSTGRESQL = _INSERT.format(
    source=f"FROM (SELECT set_config('lock_timeout', '{WAIT_SECONDS}s', true)) AS bound WHERE true",
)
_SQLITE = _INSERT.format(source="WHERE true")
_ANSWER = """
UPDATE workspaces_idempotencyrecord
SET status = %(status)s, headers = @json(headers), body = %(body)s, job_id = @uuid(job)
WHERE id = %(id)s
"""
_REPLAYED = """
UPDATE workspaces_idempotencyrecord
SET replays = replays + 1, last_request_id = %(request_id)s WHERE id = %(id)s
"""
_EARLIER = f"""
SELECT {sql.columns(IdempotencyRecord)} FROM workspaces_idempotencyrecord
WHERE workspace_id = %(workspace_id)s AND principal = %(principal)s AND key = %(key)s
  AND expires_at > @now
"""  # noqa: S608  columns alone


class StillBeingAnswered(Exception):
    """Another request with this key is in progress, and was for 2 s."""


@dataclass(frozen=True)
class Asked:
    """A request with a key. `principal` is who asks, whatever token proves it."""

    workspace_id: int
    principal: str
    key: str
    fingerprint: str
    method: str
    path: str
    request_id: str


def claim(asked: Asked) -> int | IdempotencyRecord:
    """The id of a new record, or the earlier one under the same key. Inside a transaction.

    Raises StillBeingAnswered; the transaction is then of no more use.
    """
    try:
        return _inserted(asked) or _earlier(asked)
    except OperationalError as error:
        if is_lock_timeout(error):
            raise StillBeingAnswered from error
        raise


def bound_waiting() -> None:
    """Let this transaction wait for no lock longer than `claim` would (PostgreSQL only)."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'")


def answer(
    record_id: int, status: int, headers: Mapping[str, str], body: bytes, job_id: object = None
) -> None:
    """Keep what was answered. The last thing in the transaction of `claim`, which it may commit."""
    if len(body) > BODY_LIMIT:
        raise ValueError(f"an answer of {len(body)} bytes cannot be kept for repetitions")
    kept = {"status": status, "headers": json.dumps(dict(headers)), "body": body, "job": job_id}
    sql.execute(_ANSWER, {"id": record_id, **kept}, last=True)


def note_replay(record: IdempotencyRecord, request_id: str) -> None:
    """Count that it was answered again; its expiry stays. As `answer`, the last thing."""
    sql.execute(_REPLAYED, {"id": record.pk, "request_id": request_id}, last=True)


def prune(batches: int = 1) -> int:
    """Delete what has expired, a thousand a transaction, oldest first; how many went.

    What somebody is answering at this moment is passed over.
    """
    gone = 0
    for _ in range(batches):
        gone += (last := _prune_some())
        if last < PRUNED_AT_ONCE:
            break
    return gone


def _prune_some() -> int:
    skip = connection.features.has_select_for_update_skip_locked
    with transaction.atomic():
        expired = IdempotencyRecord.objects.filter(expires_at__lte=Now()).order_by("expires_at")
        locked = expired.select_for_update(skip_locked=skip)
        ids = list(locked.values_list("pk", flat=True)[:PRUNED_AT_ONCE])
        return IdempotencyRecord.objects.filter(pk__in=ids).delete()[0]


def _inserted(asked: Asked) -> int | None:
    rows = sql.execute(
        _POSTGRESQL if connection.vendor == "postgresql" else _SQLITE,
        {
            "workspace": asked.workspace_id,
            "principal": asked.principal,
            "key": asked.key,
            "fingerprint": asked.fingerprint,
            "method": asked.method,
            "path": asked.path[:500],
            "request_id": asked.request_id,
            "empty": b"",
            "kept": KEPT.total_seconds(),
        },
    )
    return rows[0][0] if rows else None


def _earlier(asked: Asked) -> int | IdempotencyRecord:
    """What holds the key. One that expired, or was pruned in between, gives way."""
    same = {"workspace_id": asked.workspace_id, "principal": asked.principal, "key": asked.key}
    for record in sql.made(IdempotencyRecord, sql.execute(_EARLIER, same)):
        return record
    IdempotencyRecord.objects.filter(**same, expires_at__lte=Now()).delete()
    inserted = _inserted(asked)
    if inserted is None:
        raise StillBeingAnswered
    return inserted
