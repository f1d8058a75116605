"""Bearer tokens: made once, shown once, kept as a digest.

The text is `fdr_`, 43 characters of 256 random bits and 6 of checksum, all base 62, so that
secret scanners know one when they see it and a mistyped one is refused without a query.
"""

from __future__ import annotations

import hashlib
import secrets
import zlib
from datetime import timedelta
from typing import Final

from django.db import connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Least, Now
from django.utils import timezone

from workspaces import audit
from workspaces.actors import Actor, as_service
from workspaces.errors import FiredoorError
from workspaces.models import ServiceAccount, Token
from workspaces.permissions import allowed, require

PREFIX: Final = "fdr_"
LIFETIME: Final = timedelta(days=90)
LONGEST: Final = timedelta(days=366)
OVERLAP: Final = timedelta(days=1)
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET, _CHECK = 43, 6
_NOTED_EVERY = timedelta(minutes=1)


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
    request_id: str = "",
) -> tuple[Token, str]:
    """Make a token; its text is nowhere but in the answer. Audited.

    Raises, having made nothing: NotAllowed, AccountDisabled, LifetimeInvalid.
    """
    require(actor, "tokens.manage", account.workspace_id)
    with transaction.atomic():
        _check_usable(account)
        token, text = _made(account, actor, lifetime)
        _record(actor, "token.issue", token, request_id)
    return token, text


def rotate(
    token_id: int,
    *,
    actor: Actor,
    overlap: timedelta = OVERLAP,
    lifetime: timedelta = LIFETIME,
    request_id: str = "",
) -> tuple[Token, str]:
    """Make a successor; the old token works for `overlap` more, never longer than it would have.

    Raises, having changed nothing: TokenNotFound, NotAllowed, AccountDisabled, LifetimeInvalid.
    """
    with transaction.atomic():
        old = _locked(token_id, actor)
        _check_usable(old.account)
        token, text = _made(old.account, actor, lifetime)
        Token.objects.filter(pk=old.pk).update(expires_at=Least(F("expires_at"), Now() + overlap))
        _record(actor, "token.rotate", token, request_id, replaces=old.pk)
    return token, text


def revoke(token_id: int, *, actor: Actor, reason: str, request_id: str = "") -> Token:
    """Let a token work no longer, from the commit on. A revoked one stays as it is.

    Raises, having changed nothing: TokenNotFound, NotAllowed, ReasonRequired.
    """
    reason = audit.reason_given(reason)
    with transaction.atomic():
        token = _locked(token_id, actor)
        if token.revoked_at is None:
            Token.objects.filter(pk=token.pk).update(revoked_at=Now())
            token.refresh_from_db()
            _record(actor, "token.revoke", token, request_id, reason=reason)
    return token


def bearer_of(text: str) -> tuple[Actor, Token] | None:
    """Find whom a token speaks for; None where it is unknown, expired, revoked or of no use.

    One query; a second one a minute notes the use.
    """
    if not well_formed(text):
        return None
    alive = Q(revoked_at=None, expires_at__gt=Now(), account__disabled_at=None)
    open_ = Q(account__workspace=None) | Q(account__workspace__closed_at=None)
    found = Token.objects.select_related("account").annotate(now=Now())
    token = found.filter(alive & open_, digest=digest_of(text)).first()
    if token is None:
        return None
    if token.last_used_at is None or token.now - token.last_used_at > _NOTED_EVERY:
        Token.objects.filter(pk=token.pk).update(last_used_at=Now())
    return as_service(token.account), token


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
        expires_at=timezone.now() + lifetime,
    )
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


def _check_usable(account: ServiceAccount) -> None:
    closed = account.workspace is not None and account.workspace.closed_at is not None
    if closed or account.disabled_at is not None:
        raise AccountDisabled(account.name)


def _locked(token_id: int, actor: Actor) -> Token:
    only = ("self",) if connection.features.has_select_for_update_of else ()
    tokens = Token.objects.select_for_update(of=only).select_related("account__workspace")
    token = tokens.filter(pk=token_id).first()
    if token is None or not allowed(actor, "jobs.view", token.account.workspace_id):
        raise TokenNotFound(token_id)
    require(actor, "tokens.manage", token.account.workspace_id)
    return token


def _record(
    actor: Actor,
    action: str,
    token: Token,
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
        request_id=request_id,
        after=after if replaces is None else {**after, "replaces": replaces},
    )
