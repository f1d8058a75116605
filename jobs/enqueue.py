"""How an intent becomes a job: one INSERT in the caller's transaction, one wake after it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from django.conf import settings
from django.db import transaction

from jobs import moves, registry, tracing
from jobs.errors import KeyConflict, KeyInvalid, KeyReserved, MomentInvalid
from jobs.fence import Wake
from jobs.gates import gate_of
from jobs.models import Job
from jobs.models.ids import uuid7
from jobs.params import decode, encode_params
from jobs.publish import after_commit
from jobs.registry import KindSpec
from workspaces.actors import SYSTEM, Actor, as_actor
from workspaces.errors import NoSuchWorkspace, WorkspaceClosed
from workspaces.models import Workspace
from workspaces.visibility import named

if TYPE_CHECKING:
    from django.contrib.auth.models import User

KEY_LIMIT = 255
BATCH = 500
LAST_YEAR = 9000
"""Far before the last moment there is, so that whatever is added to an eta still is one."""
RESERVED = ("http:", "schedule:", "operation:")


def enqueue(
    kind: KindSpec | str,
    *,
    workspace: Workspace | int | str,
    key: str,
    params: Mapping[str, object],
    eta: datetime | None = None,
    countdown: float | None = None,
    actor: Actor | User = SYSTEM,
    request_id: str = "",
    traceparent: str = "",
    queue: str = "",
    reserved: bool = False,
) -> Job:
    """Record one intent; ``job.created`` says whether it is new.

    The row stands or falls with the caller's transaction; the wake after commit is best effort
    and never fails or hangs the caller. The same key with the same params is a no-op that
    answers the *newest* job of the chain. ``workspace`` is a Workspace, its id or its slug;
    ``eta`` an aware moment, ``countdown`` seconds; ``queue`` another one than
    the kind's, for this job alone; ``reserved`` lets the platform's own parts
    use a reserved prefix. Without ``request_id`` and ``traceparent`` those of the request or job
    that enqueues are the new job's too. *Hole:* a key means "the same intent" only while its row
    is kept.

    Raises, having written nothing: UnknownKind, ParamsInvalid, ParamsTooLarge, KeyInvalid,
    KeyReserved, KeyConflict (same key, other params), MomentInvalid, NoSuchWorkspace,
    WorkspaceClosed.
    """
    spec = kind if isinstance(kind, KindSpec) else registry.named(kind)
    when = _moment(eta, countdown)
    origin = Origin(_workspace_id(workspace), as_actor(actor).id, request_id, traceparent)
    return _inserted(_row(spec, key, params, origin, eta=when, queue=queue, reserved=reserved))


def enqueue_many(
    intents: Iterable[tuple[Enqueueable, str]],
    *,
    workspace: Workspace | int | str,
    actor: Actor | User = SYSTEM,
    request_id: str = "",
    traceparent: str = "",
) -> list[Job]:
    """Record many intents, each with its key; the jobs, in the order given.

    All or none: one refusal, and nothing is enqueued. Otherwise as ``enqueue``, but inserted in
    the order of their keys, hundreds a statement, and published in bulk.
    """
    origin = Origin(_workspace_id(workspace), as_actor(actor).id, request_id, traceparent)
    rows = [
        _row(intent.spec, key, intent.params, origin, queue=intent.queue) for intent, key in intents
    ]
    ordered = sorted(rows, key=lambda row: (row["kind"], row["key"]))
    with transaction.atomic():
        new: set[uuid.UUID] = set()
        for batch in _batches(ordered):
            new |= moves.insert_many(batch)
        jobs = Job.objects.in_bulk(new)
        answered = [_answered(jobs.get(row["id"]), row) for row in rows]
        after_commit([Wake(job.pk, job.kind, job.queue) for job in answered if job.created])
    return answered


class Enqueueable(Protocol):
    """A kind with its params, as ``kind.s(…)`` makes it."""

    @property
    def spec(self) -> KindSpec: ...
    @property
    def params(self) -> Mapping[str, object]: ...
    @property
    def queue(self) -> str: ...


@dataclass(frozen=True)
class Origin:
    """Where an intent comes from."""

    workspace_id: int
    actor: str
    request_id: str = ""
    traceparent: str = ""


def _row(
    spec: KindSpec,
    key: str,
    params: Mapping[str, object],
    origin: Origin,
    *,
    eta: datetime | None = None,
    queue: str = "",
    reserved: bool = False,
) -> dict[str, Any]:
    """A job's row, checked. Raises what ``enqueue`` raises about kind, key and params."""
    _check_key(key, reserved=reserved)
    text, digest = encode_params(spec.name, params)
    arguments = decode(spec.name, spec.params, text)
    return {
        "id": uuid7(),
        "workspace": origin.workspace_id,
        "kind": spec.name,
        "key": key,
        "params": text,
        "digest": digest,
        "version": spec.version,
        "queue": _queue(spec, queue),
        "gate": gate_of(spec, arguments),
        "actor": origin.actor,
        "request_id": (origin.request_id or tracing.current().request_id)[:128],
        "traceparent": tracing.well_formed(origin.traceparent or tracing.current().traceparent),
        "deadline": spec.deadline.total_seconds() if spec.deadline else None,
        "eta": eta,
        "waits": eta is not None,
        "shared": spec.is_shared,
    }


def _queue(spec: KindSpec, asked: str) -> str:
    """Where the job's messages go. Raises ValueError for a queue that nobody serves."""
    if asked and asked not in settings.FIREDOOR_QUEUES:
        raise ValueError(f"kind {spec.name}: there is no queue {asked!r}")
    return asked or spec.queue


def _batches(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]


def _answered(job: Job | None, row: dict[str, Any]) -> Job:
    if job is None:
        return _existing(row)
    job.created = True
    return job


def _inserted(row: dict[str, Any]) -> Job:
    job = moves.insert(row)
    if job is None:
        return _existing(row)
    job.created = True
    if not row["waits"]:
        after_commit([Wake(job.pk, job.kind, job.queue)])
    return job


def _existing(row: dict[str, Any]) -> Job:
    """The newest job of the chain that holds the key, or the error that says why there is none."""
    same = {"workspace_id": row["workspace"], "kind": row["kind"], "key": row["key"]}
    first = Job.objects.filter(retry_of__isnull=True, **same).first()
    if first is None:
        raise _no_workspace(row["workspace"])
    if first.params_digest != row["digest"]:
        raise KeyConflict(
            f"Nothing was enqueued: the key {row['key']!r} of {row['kind']} belongs to job "
            f"{first.pk}, which has other params. Use one key for one intent: a new intent needs "
            "a new key, and the same intent the same params."
        ).telling(job_id=str(first.pk))
    newest = Job.objects.filter(root_id=first.root_id, successor__isnull=True).first()
    return newest or first


def _no_workspace(workspace_id: int) -> NoSuchWorkspace | WorkspaceClosed:
    slug = Workspace.objects.filter(pk=workspace_id).values_list("slug", flat=True).first()
    return NoSuchWorkspace(workspace_id) if slug is None else WorkspaceClosed(slug)


def _workspace_id(workspace: Workspace | int | str) -> int:
    if isinstance(workspace, Workspace):
        return workspace.pk
    if isinstance(workspace, int):
        return workspace
    found = named(workspace, Workspace.objects.all())
    if found is None:
        raise NoSuchWorkspace(workspace)
    return found.pk


def _check_key(key: str, *, reserved: bool) -> None:
    if not key or key != key.strip() or not key.isprintable():
        raise KeyInvalid(
            "Nothing was enqueued: the key is empty, begins or ends with a space, or holds "
            "characters that cannot be shown. A key is text that names the intent, such as "
            "'order-42'."
        )
    if len(key) > KEY_LIMIT:
        raise KeyInvalid(
            f"Nothing was enqueued: the key has {len(key)} characters and may have {KEY_LIMIT}. "
            "Shorten it, or use a digest of what it names."
        )
    if key.lower().startswith(RESERVED) and not reserved:
        raise KeyReserved(
            f"Nothing was enqueued: keys that start with {', '.join(RESERVED)} belong to the "
            "platform. Choose another prefix."
        )


def _moment(eta: datetime | None, countdown: float | None) -> datetime | None:
    if eta is not None and countdown is not None:
        raise MomentInvalid("Nothing was enqueued: give either eta or countdown, not both.")
    if countdown is not None:
        if not 0 <= countdown <= 366 * 86400:
            raise MomentInvalid("Nothing was enqueued: countdown is in seconds, from 0 to a year.")
        return datetime.now(UTC) + timedelta(seconds=countdown) if countdown else None
    if eta is not None and eta.year > LAST_YEAR:
        raise MomentInvalid(f"Nothing was enqueued: eta is after the year {LAST_YEAR}.")
    if eta is not None and eta.tzinfo is None:
        raise MomentInvalid(
            "Nothing was enqueued: eta has no time zone. Pass an aware datetime, for example "
            "datetime(2030, 1, 1, tzinfo=UTC)."
        )
    return eta
