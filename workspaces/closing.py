"""How a workspace closes: every app says what must not be cut off, and stops its own work.

Apps `register` in `AppConfig.ready()`; this app knows none of them.

Guarantee: the checks, `closed_at`, every app's stop and the audit event commit together or not
at all, under an exclusive lock of the workspace row. A writer that must not slip past a closing
selects the row `FOR SHARE` (or stronger) with `closed_at IS NULL` in the transaction that adds
the work: it then either commits before the checks look, or finds the workspace closed.
(The foreign key alone is no such lock: Django's are deferred and take a weaker one at commit,
which the closing lets through: a job at work that only records something must not wait for a
closing that waits for the job.)
Hole: a writer that reads `closed_at` without that lock can add work to a closed workspace. What
runs outside the database when it closes is only asked to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models.functions import Now

from workspaces import audit
from workspaces.errors import FiredoorError, NoSuchWorkspace
from workspaces.models import Workspace
from workspaces.permissions import require
from workspaces.visibility import visible_workspaces

if TYPE_CHECKING:
    from workspaces.actors import Actor

Check = Callable[[Workspace], str | None]
"""Returns a sentence that refuses the closing, or None."""

Close = Callable[[Workspace, "Actor", str], None]
"""Stops an app's work in a workspace; gets the actor and the reason."""


@dataclass(frozen=True, slots=True)
class _Part:
    check: Check | None
    close: Close | None


_parts: dict[str, _Part] = {}


class CloseRefused(FiredoorError):
    """An app has work in the workspace that must not be cut off."""

    code = "close_refused"
    status = 409

    def __init__(self, sentences: tuple[str, ...]) -> None:
        super().__init__(f"The workspace stays open. {' '.join(sentences)}")


def register(name: str, *, check: Check | None = None, close: Close | None = None) -> None:
    """Let the app `name` take part in every closing. Raises ValueError for a name in use."""
    if name in _parts:
        raise ValueError(f"{name!r} takes part in closing already")
    _parts[name] = _Part(check, close)


def close(workspace_id: int, *, actor: Actor, reason: str, request_id: str = "") -> Workspace:
    """Close a workspace for good; closing it again changes nothing and writes nothing.

    Raises NoSuchWorkspace (also for a foreign one), NotAllowed, ReasonRequired, or CloseRefused
    with every app's objection. What a part's own stop raises undoes everything.
    """
    if not visible_workspaces(actor).filter(pk=workspace_id).exists():
        raise NoSuchWorkspace(workspace_id)
    attempt = audit.Attempt(
        actor, "workspaces.close", workspace_id, "workspace", workspace_id, reason, request_id
    )
    with audit.attempted(attempt):
        require(actor, "workspaces.close", workspace_id)
        return _closed(workspace_id, actor, audit.reason_given(reason), request_id)


def _closed(workspace_id: int, actor: Actor, reason: str, request_id: str) -> Workspace:
    with transaction.atomic():
        workspace = Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
        if workspace.closed_at is None:
            _refuse_if_any_part_objects(workspace)
            _close_locked(workspace, actor, reason)
            _record(workspace, actor, reason, request_id)
    return workspace


def _refuse_if_any_part_objects(workspace: Workspace) -> None:
    answers = [part.check(workspace) for part in _parts.values() if part.check]
    objections = tuple(answer for answer in answers if answer)
    if objections:
        raise CloseRefused(objections)


def _close_locked(workspace: Workspace, actor: Actor, reason: str) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(closed_at=Now())
    workspace.refresh_from_db(fields=["closed_at"])
    for part in _parts.values():
        if part.close:
            part.close(workspace, actor, reason)


def _record(workspace: Workspace, actor: Actor, reason: str, request_id: str) -> None:
    audit.record(
        actor=actor,
        action="workspaces.close",
        workspace=workspace,
        object_type="workspace",
        object_id=workspace.pk,
        reason=reason,
        request_id=request_id,
        before={"closed_at": None},
        after={"closed_at": workspace.closed_at},
    )
