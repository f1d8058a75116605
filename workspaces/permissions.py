"""Who may do what: one table of roles, and one question asked of it.

Pure: reads no database and no clock. Django's own permissions and `is_superuser` play no part;
they only open the admin's door.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from workspaces.errors import FiredoorError

if TYPE_CHECKING:
    from workspaces.actors import Actor
    from workspaces.models import Workspace


class Role(StrEnum):
    """What a member is in a workspace. Each role may do all that the one before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    LEAD = "lead"
    ADMIN = "admin"


ROLES: Final = tuple((role.value, role.value.title()) for role in Role)


_VIEWER: Final = frozenset({"jobs.view", "alerts.view", "webhooks.view"})
_OPERATOR: Final = _VIEWER | {
    "jobs.enqueue",
    "jobs.operate",
    "alerts.operate",
    "audit.view",
    "operations.run",
    "webhooks.operate",
}
_LEAD: Final = _OPERATOR | {"jobs.operate_risky", "locks.force", "operations.large"}
_ADMIN: Final = _LEAD | {"members.manage", "tokens.manage", "webhooks.manage", "workspaces.close"}

TABLE: Final[dict[Role, frozenset[str]]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.LEAD: _LEAD,
    Role.ADMIN: _ADMIN,
}
ACTIONS: Final = frozenset[str]().union(*TABLE.values())
VERBS: Final = frozenset({"resume", "restart", "cancel", "resolve", "reconcile"})
"""Deeds on a job; which right they need is said by the job's kind."""

SMALL_OPERATION: Final = 50
"""Items that a bulk deed may have with `operations.run`; a larger one needs `operations.large`."""

RISKY: Final = 3
"""From this risk on (destroys or replaces) a verb also needs `jobs.operate_risky`."""


class Governed(Protocol):
    """What a verb's right depends on. `risk` is that of the job at hand, already worked out."""

    @property
    def permission(self) -> str: ...
    @property
    def risk(self) -> int: ...


class NotAllowed(FiredoorError):
    """The actor lacks a right. `right` is its name.

    Its sentence names no workspace; still, look records up among those that the actor may see
    first, so that a stranger is told "no such job" and never "not allowed".
    """

    code = "not_allowed"
    status = 403

    def __init__(self, right: str, label: str) -> None:
        super().__init__(
            f"Nothing was done: {label} lacks the right {right!r} here. "
            f"Ask an admin of the workspace; a role that has it is {_lowest_role_with(right)}."
        )
        self.right = right
        self.members = {"right": right}


def allowed(
    actor: Actor, action: str, workspace: Workspace | int | None, kind: Governed | None = None
) -> bool:
    """Say whether `actor` may do `action` in `workspace` (or its id).

    `action` is one of `ACTIONS`, or one of `VERBS` together with the `kind` it is done to.
    Without a workspace the question is about the platform: only memberships of all workspaces
    count. The system may do everything. Raises ValueError for an action that does not exist
    and for a verb without a kind: both are mistakes of the caller, never a denial.
    """
    return missing_right(actor, action, workspace, kind) is None


def require(
    actor: Actor, action: str, workspace: Workspace | int | None, kind: Governed | None = None
) -> None:
    """Raise NotAllowed, naming the first missing right, unless `allowed`."""
    right = missing_right(actor, action, workspace, kind)
    if right is not None:
        raise NotAllowed(right, actor.label)


def require_role(actor: Actor, role: Role, workspace: Workspace | int | None) -> None:
    """Raise NotAllowed unless `actor` may do all that `role` may: nobody gives more than that."""
    for right in sorted(TABLE[role]):
        require(actor, right, workspace)


def missing_right(
    actor: Actor, action: str, workspace: Workspace | int | None, kind: Governed | None = None
) -> str | None:
    """Name the first right that `actor` lacks for `action`, or None when all are there."""
    needed = _rights_for(action, kind)
    if actor.is_system:
        return None
    held = _rights_held(actor, workspace)
    return next((right for right in needed if right not in held), None)


def _rights_for(action: str, kind: Governed | None) -> tuple[str, ...]:
    if action in ACTIONS:
        return (action,)
    if action not in VERBS:
        raise ValueError(f"there is no action {action!r}")
    if kind is None:
        raise ValueError(f"{action!r} is done to a job: its kind says which right it needs")
    return (kind.permission, "jobs.operate_risky") if kind.risk >= RISKY else (kind.permission,)


def _rights_held(actor: Actor, workspace: Workspace | int | None) -> frozenset[str]:
    place = workspace if workspace is None or isinstance(workspace, int) else workspace.pk
    roles = (grant.role for grant in actor.roles if grant.covers(place))
    return frozenset[str]().union(*(TABLE[role] for role in roles))


def _lowest_role_with(right: str) -> str:
    return next((repr(role.value) for role in Role if right in TABLE[role]), "none yet")
