"""How a service account begins and ends. Its tokens are made by `workspaces.tokens`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from workspaces import audit
from workspaces.actors import Actor
from workspaces.errors import FiredoorError, WorkspaceClosed
from workspaces.models import ServiceAccount, Workspace
from workspaces.permissions import Role, allowed, require, require_role

if TYPE_CHECKING:
    from uuid import UUID

NAME_LIMIT = 100


class AccountExists(FiredoorError):
    """A service account of that name exists."""

    code = "account_exists"
    status = 409

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Nothing was made: there is a service account {name!r} here. Use another name, or "
            "make a token for that one."
        )


class AccountNotFound(FiredoorError):
    """No such service account that you may see."""

    code = "account_not_found"
    status = 404

    def __init__(self, named: object) -> None:
        super().__init__(
            f"Nothing was done: there is no service account {str(named)[:NAME_LIMIT]!r} that you "
            "may see."
        )


class AccountInvalid(FiredoorError):
    """A name that no service account can have."""

    code = "account_invalid"
    status = 422


def create(
    name: str,
    *,
    role: Role,
    workspace: Workspace | None,
    actor: Actor,
    operation_id: UUID | None = None,
    request_id: str = "",
) -> ServiceAccount:
    """Make an account with one role in one workspace, or in all when that is None. Audited.

    Nobody gives more rights than they have. Raises, having made nothing: NotAllowed,
    AccountInvalid, AccountExists, WorkspaceClosed, OperationRepeated.
    """
    place = workspace.pk if workspace is not None else None
    tried = (actor, "service_account.create", place, "workspace", place or "all")
    with audit.attempted(audit.Attempt(*tried, request_id=request_id)):
        require(actor, "tokens.manage", workspace)
        require_role(actor, role, workspace)
        account = ServiceAccount(
            workspace=workspace, name=_checked(name), role=role.value, created_by=actor.id
        )
        try:
            with transaction.atomic():
                _check_open(workspace)
                account.save(force_insert=True)
                _record(
                    actor,
                    "service_account.create",
                    account,
                    operation_id=operation_id,
                    request_id=request_id,
                )
        except IntegrityError:
            raise AccountExists(name) from None
    return account


def disable(
    account_id: int,
    *,
    actor: Actor,
    reason: str,
    operation_id: UUID | None = None,
    request_id: str = "",
) -> ServiceAccount:
    """Let none of its tokens work from the commit on, for good. A disabled one stays as it is.

    Raises, having changed nothing: AccountNotFound, NotAllowed, ReasonRequired.
    """
    account = visible_account(account_id, actor)
    tried = (actor, "service_account.disable", account.workspace_id, "service_account", account.pk)
    with audit.attempted(audit.Attempt(*tried, reason, request_id)):
        require(actor, "tokens.manage", account.workspace_id)
        reason = audit.reason_given(reason)
        with transaction.atomic():
            rows = ServiceAccount.objects.filter(pk=account.pk, disabled_at=None)
            if rows.update(disabled_at=Now()):
                _record(
                    actor,
                    "service_account.disable",
                    account,
                    reason=reason,
                    operation_id=operation_id,
                    request_id=request_id,
                )
        account.refresh_from_db()
    return account


def visible_account(account_id: int, actor: Actor) -> ServiceAccount:
    """The account, if the actor may see it. AccountNotFound says the same for a foreign one."""
    found = ServiceAccount.objects.select_related("workspace").filter(pk=account_id).first()
    if found is None or not allowed(actor, "jobs.view", found.workspace_id):
        raise AccountNotFound(account_id)
    return found


def _checked(name: str) -> str:
    name = name.strip()
    if not name or len(name) > NAME_LIMIT or not name.isprintable():
        raise AccountInvalid(f"Nothing was made: a name has from 1 to {NAME_LIMIT} characters.")
    return name


def _check_open(workspace: Workspace | None) -> None:
    """Hold the workspace open until the account is committed; its closing waits."""
    if workspace is None:
        return
    held = Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    if held.closed_at is not None:
        raise WorkspaceClosed(held.slug)


def _record(
    actor: Actor,
    action: str,
    account: ServiceAccount,
    *,
    reason: str = "",
    operation_id: UUID | None = None,
    request_id: str = "",
) -> None:
    audit.record(
        actor=actor,
        action=action,
        workspace=account.workspace_id,
        object_type="service_account",
        object_id=account.pk,
        reason=reason,
        operation_id=operation_id,
        request_id=request_id,
        after={"name": account.name, "role": account.role},
    )
