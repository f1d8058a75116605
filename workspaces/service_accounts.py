"""How a service account begins and ends. Its tokens are made by `workspaces.tokens`."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from workspaces import audit
from workspaces.actors import Actor
from workspaces.errors import FiredoorError, WorkspaceClosed
from workspaces.models import ServiceAccount, Workspace
from workspaces.permissions import TABLE, NotAllowed, Role, allowed, require

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
    name: str, *, role: Role, workspace: Workspace | None, actor: Actor, request_id: str = ""
) -> ServiceAccount:
    """Make an account with one role in one workspace, or in all when that is None. Audited.

    Nobody gives more rights than they have. Raises, having made nothing: NotAllowed,
    AccountInvalid, AccountExists, WorkspaceClosed.
    """
    require(actor, "tokens.manage", workspace)
    _check_not_above(actor, role, workspace)
    if workspace is not None and workspace.closed_at is not None:
        raise WorkspaceClosed(workspace.slug)
    if not name.strip() or len(name) > NAME_LIMIT or not name.isprintable():
        raise AccountInvalid(f"Nothing was made: a name has from 1 to {NAME_LIMIT} characters.")
    try:
        with transaction.atomic():
            account = ServiceAccount.objects.create(
                workspace=workspace, name=name.strip(), role=role.value, created_by=actor.id
            )
            _record(actor, "service_account.create", account, request_id=request_id)
    except IntegrityError:
        raise AccountExists(name) from None
    return account


def disable(account_id: int, *, actor: Actor, reason: str, request_id: str = "") -> ServiceAccount:
    """Let none of its tokens work from the commit on, for good. A disabled one stays as it is.

    Raises, having changed nothing: AccountNotFound, NotAllowed, ReasonRequired.
    """
    reason = audit.reason_given(reason)
    with transaction.atomic():
        account = ServiceAccount.objects.select_for_update().filter(pk=account_id).first()
        if account is None or not allowed(actor, "jobs.view", account.workspace_id):
            raise AccountNotFound(account_id)
        require(actor, "tokens.manage", account.workspace_id)
        if account.disabled_at is None:
            ServiceAccount.objects.filter(pk=account.pk).update(disabled_at=Now())
            account.refresh_from_db()
            _record(actor, "service_account.disable", account, reason=reason, request_id=request_id)
    return account


def _check_not_above(actor: Actor, role: Role, workspace: Workspace | None) -> None:
    for right in sorted(TABLE[role]):
        if not allowed(actor, right, workspace):
            raise NotAllowed(right, actor.label)


def _record(
    actor: Actor, action: str, account: ServiceAccount, *, reason: str = "", request_id: str = ""
) -> None:
    audit.record(
        actor=actor,
        action=action,
        workspace=account.workspace_id,
        object_type="service_account",
        object_id=account.pk,
        reason=reason,
        request_id=request_id,
        after={"name": account.name, "role": account.role},
    )
