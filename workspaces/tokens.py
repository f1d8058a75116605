"""Bearer tokens: made once, shown once, kept as a digest.

The text is `fdr_`, 43 characters of 256 random bits and 6 of checksum, all base 62, so that
secret scanners know one when they see it and a mistyped one is refused without a query.
"""

from __future__ import annotations

import hashlib
import secrets
import zlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django.db import transaction
from django.db.models import F, Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Least, Now

from workspaces import audit, sql
from workspaces.actors import Actor, service
from workspaces.errors import FiredoorError
from workspaces.models import ServiceAccount, Token, Workspace
from workspaces.permissions import Role, allowed, require, require_role
from workspaces.service_accounts import visible_account

if TYPE_CHECKING:
    from uuid import UUID

PREFIX: Final = "fdr_"
LIFETIME: Final = timedelta(days=90)
LONGEST: Final = timedelta(days=366)
OVERLAP: Final = timedelta(days=1)
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET, _CHECK = 43, 6

LIVING: Final = Q(revoked_at=None, expires_at__gt=Now())
"""Tokens that are neither revoked nor expired; their account may still be disabled."""

_UNNOTED = Q(last_used_at=None) | Q(last_used_at__lt=Now() - timedelta(minutes=1))


_BEARER = f"""
SELECT t.id, t.last_used_at IS NULL OR t.last_used_at < @after(a_minute_ago), a.id, a.name, a.role,
  a.workspace_id, {sql.columns(Workspace, "w")}
FROM workspaces_token t
JOIN workspaces_serviceaccount a ON a.id = t.account_id
LEFT JOIN workspaces_workspace w ON w.id = a.workspace_id
WHERE t.digest = %(digest)s AND t.revoked_at IS NULL AND t.expires_at > @now
  AND a.disabled_at IS NULL AND (a.workspace_id IS NULL OR w.closed_at IS NULL)
"""  # noqa: S608  columns alone


class TokenNotFound(FiredoorError):
    """No such token that you may see."""

    code = "token_not_found"
    status = 404

    def __init__(self, token_id: object) -> None:
        super().__init__(f"Nothing was done: there is no token {token_id} that you may see.")


class LifetimeInvalid(FiredoorError):
    """A token lives from a minute to a year."""

    code = "lifetime_invalid"
    status = 422

    def __init__(self) -> None:
        super().__init__("Nothing was made: a token lives from one minute to 366 days.")


class TokenOver(FiredoorError):
    """The token is revoked or expired, and so has no successor."""

    code = "token_over"
    status = 409

    def __init__(self, token_id: object) -> None:
        super().__init__(
            f"Nothing was made: the token {token_id} is revoked or expired. Issue a new one."
        )


class AccountDisabled(FiredoorError):
    """The service account is disabled, or its workspace closed."""

    code = "account_disabled"
    status = 409

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Nothing was made: the account {name!r} is disabled, or its workspace is closed."
        )


def well_formed(text: str) -> bool:
    """Say whether `text` can be a token at all, by its form and checksum."""
    body = text.removeprefix(PREFIX)
    if body == text or len(body) != _SECRET + _CHECK or not set(body) <= set(_ALPHABET):
        return False
    return secrets.compare_digest(_checksum(body[:_SECRET]), body[_SECRET:])


def issue(
    account: ServiceAccount,
    *,
    actor: Actor,
    lifetime: timedelta = LIFETIME,
    operation_id: UUID | None = None,
    request_id: str = "",
) -> tuple[Token, str]:
    """Make a token; its text is nowhere but in the answer. Audited.

    Raises, having made nothing: AccountNotFound, NotAllowed, AccountDisabled, LifetimeInvalid,
    OperationRepeated (this very form was sent before: its token was shown then).
    """
    account = visible_account(account.pk, actor)
    tried = (actor, "token.issue", account.workspace_id, "service_account", account.pk)
    with audit.attempted(audit.Attempt(*tried, request_id=request_id)), transaction.atomic():
        _authorise(actor, account)
        token, text = _made(account, actor, lifetime)
        _record(actor, "token.issue", token, operation_id, request_id)
    return token, text


def rotate(
    token_id: int,
    *,
    actor: Actor,
    overlap: timedelta = OVERLAP,
    lifetime: timedelta = LIFETIME,
    operation_id: UUID | None = None,
    request_id: str = "",
) -> tuple[Token, str]:
    """Make a successor; the old token works for `overlap` more, never longer than it would have.

    Raises, having changed nothing: TokenNotFound, NotAllowed, AccountDisabled, LifetimeInvalid,
    TokenOver (it is revoked or expired), OperationRepeated.
    """
    seen = visible_token(token_id, actor)
    tried = (actor, "token.rotate", seen.account.workspace_id, "token", token_id)
    with audit.attempted(audit.Attempt(*tried, request_id=request_id)), transaction.atomic():
        _authorise(actor, seen.account)
        if not timedelta(0) <= overlap <= LONGEST:
            raise LifetimeInvalid
        token, text = _made(seen.account, actor, lifetime)
        living = Token.objects.filter(LIVING, pk=token_id)
        if not living.update(expires_at=Least(F("expires_at"), _after(overlap))):
            raise TokenOver(token_id)
        _record(actor, "token.rotate", token, operation_id, request_id, replaces=token_id)
    return token, text


def revoke(
    token_id: int,
    *,
    actor: Actor,
    reason: str,
    operation_id: UUID | None = None,
    request_id: str = "",
) -> Token:
    """Let a token work no longer, from the commit on. A revoked one stays as it is.

    Raises, having changed nothing: TokenNotFound, NotAllowed, ReasonRequired.
    """
    token = visible_token(token_id, actor)
    tried = (actor, "token.revoke", token.account.workspace_id, "token", token_id)
    with audit.attempted(audit.Attempt(*tried, reason, request_id)):
        require(actor, "tokens.manage", token.account.workspace_id)
        reason = audit.reason_given(reason)
        with transaction.atomic():
            if Token.objects.filter(pk=token_id, revoked_at=None).update(revoked_at=Now()):
                _record(actor, "token.revoke", token, operation_id, request_id, reason=reason)
    token.refresh_from_db()
    return token


def visible_token(token_id: int, actor: Actor) -> Token:
    """The token, if the actor may see it. TokenNotFound says the same for a foreign one."""
    found = Token.objects.select_related("account__workspace").filter(pk=token_id).first()
    if found is None or not allowed(actor, "jobs.view", found.account.workspace_id):
        raise TokenNotFound(token_id)
    return found


@dataclass(frozen=True, slots=True)
class Accepted:
    """A token that is good, and the workspace of its account unless that is in all of them."""

    token_id: int
    workspace: Workspace | None


def bearer_of(text: str) -> tuple[Actor, Accepted] | None:
    """Find whom a token speaks for; None where it is unknown, expired, revoked or of no use.

    One statement; a second one a minute notes the use.
    """
    if not well_formed(text):
        return None
    rows = sql.execute_first(_BEARER, {"digest": digest_of(text), "a_minute_ago": -60})
    if not rows:
        return None
    token_id, unnoted, account_id, name, role, workspace_id, *workspace = rows[0]
    if unnoted:  # asked again in the update: many requests may come here at once
        Token.objects.filter(_UNNOTED, pk=token_id).update(last_used_at=Now())
    own = None if workspace_id is None else sql.made(Workspace, [workspace])[0]
    return service(account_id, name, role, workspace_id), Accepted(token_id, own)


def _after(wait: timedelta) -> Combinable:
    """A moment. SQLite writes a sum with more digits, which would be after the moment itself."""
    return Now() + wait if wait else Now()


def digest_of(text: str) -> str:
    """What is kept of a token. 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(text.encode()).hexdigest()


def _made(account: ServiceAccount, actor: Actor, lifetime: timedelta) -> tuple[Token, str]:
    if not timedelta(minutes=1) <= lifetime <= LONGEST:
        raise LifetimeInvalid
    text = _new_text()
    token = Token.objects.create(
        account=account,
        digest=digest_of(text),
        hint=text[: len(PREFIX) + 6],
        created_by=actor.id,
        expires_at=Now() + lifetime,
    )
    token.refresh_from_db(fields=["expires_at"])
    return token, text


def _new_text() -> str:
    secret = "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET))
    return f"{PREFIX}{secret}{_checksum(secret)}"


def _checksum(secret: str) -> str:
    number, digits = zlib.crc32(secret.encode()), ""
    for _ in range(_CHECK):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits


def _authorise(actor: Actor, account: ServiceAccount) -> None:
    """Whether the actor may hand out what the account can do; it stays as it is meanwhile."""
    require(actor, "tokens.manage", account.workspace_id)
    require_role(actor, Role(account.role), account.workspace_id)
    held = ServiceAccount.objects.select_for_update().get(pk=account.pk)
    closed = account.workspace is not None and account.workspace.closed_at is not None
    if closed or held.disabled_at is not None:
        raise AccountDisabled(account.name)


def _record(
    actor: Actor,
    action: str,
    token: Token,
    operation_id: UUID | None,
    request_id: str,
    *,
    reason: str = "",
    replaces: int | None = None,
) -> None:
    after = {"account": token.account_id, "hint": token.hint, "expires_at": token.expires_at}
    audit.record(
        actor=actor,
        action=action,
        workspace=token.account.workspace_id,
        object_type="token",
        object_id=token.pk,
        reason=reason,
        operation_id=operation_id,
        request_id=request_id,
        after=after if replaces is None else {**after, "replaces": replaces},
    )
