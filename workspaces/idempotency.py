"""One answer per key: the record of a request, its work and its answer commit together.

The record is inserted first. Whoever sends the same key meanwhile waits on the unique index, at
most 2 s; afterwards they find the answer, or nothing if the work was rolled back, and then the
work is theirs. So a crash at any point leaves either nothing or everything.
*Hole:* a key means "the same request" for 24 hours; a job's own key protects for as long as the
job is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import OperationalError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

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
    {empty}, %(request_id)s, '', 0, {now}, {until} {source}
ON CONFLICT (workspace_id, principal, key) DO NOTHING
RETURNING id
"""
# The wait is bounded inside the statement itself, which spares a round trip; the setting is read
# when the wait begins, after the source has been evaluated.
_POSTGRESQL = _INSERT.format(
    empty="''::bytea",
    now="statement_timestamp()",
    until="statement_timestamp() + interval '24 hours'",
    source=f"FROM (SELECT set_config('lock_timeout', '{WAIT_SECONDS}s', true)) AS bound WHERE true",
)
_SQLITE = _INSERT.format(
    empty="x''",
    now="STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')",
    until="STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW', '24 hours')",
    source="WHERE true",
)


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
    """Keep what was answered. In the transaction of `claim`, after the work."""
    if len(body) > BODY_LIMIT:
        raise ValueError(f"an answer of {len(body)} bytes cannot be kept for repetitions")
    IdempotencyRecord.objects.filter(pk=record_id).update(
        status=status, headers=dict(headers), body=body, job_id=job_id
    )


def note_replay(record: IdempotencyRecord, request_id: str) -> None:
    """Count that it was answered again; its expiry stays."""
    IdempotencyRecord.objects.filter(pk=record.pk).update(
        replays=F("replays") + 1, last_request_id=request_id
    )


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
    sql = _POSTGRESQL if connection.vendor == "postgresql" else _SQLITE
    with connection.cursor() as cursor:
        cursor.execute(
            sql,
            {
                "workspace": asked.workspace_id,
                "principal": asked.principal,
                "key": asked.key,
                "fingerprint": asked.fingerprint,
                "method": asked.method,
                "path": asked.path[:500],
                "request_id": asked.request_id,
            },
        )
        row = cursor.fetchone()
    return row[0] if row else None


def _earlier(asked: Asked) -> int | IdempotencyRecord:
    """What holds the key. One that expired, or was pruned in between, gives way."""
    same = {"workspace_id": asked.workspace_id, "principal": asked.principal, "key": asked.key}
    found = IdempotencyRecord.objects.filter(**same)
    found.filter(expires_at__lte=Now()).delete()
    record = found.first()
    if record is not None:
        return record
    inserted = _inserted(asked)
    if inserted is None:
        raise StillBeingAnswered
    return inserted
