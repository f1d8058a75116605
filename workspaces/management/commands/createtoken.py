"""``manage.py createtoken``: a program's way in, made, rotated or taken away by the system.

The token is the only thing on standard output, so that a script may keep it; what people want to
know goes to standard error. It is shown this once.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from workspaces import audit, service_accounts, tokens
from workspaces.actors import SYSTEM
from workspaces.errors import FiredoorError
from workspaces.management.typed import check_text
from workspaces.models import ServiceAccount, Token, Workspace
from workspaces.permissions import Role
from workspaces.visibility import visible_workspace


class Command(BaseCommand):
    help = (
        "Make a bearer token for a service account, and the account if there is none. Prints "
        "the token once; it is kept nowhere. Exit codes: 0 done, 1 refused, 2 wrong usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        place = parser.add_mutually_exclusive_group(required=True)
        place.add_argument("--workspace", metavar="SLUG", help="the account acts in this one")
        place.add_argument("--all-workspaces", action="store_true", help="it acts in all of them")
        parser.add_argument("--name", required=True, help="of the service account")
        roles = [role.value for role in Role]
        parser.add_argument("--role", choices=roles, help="needed for an account that is new")
        days = tokens.LIFETIME.days
        parser.add_argument("--expires-days", type=float, default=days, metavar="N")
        deed = parser.add_mutually_exclusive_group()
        deed.add_argument("--rotate", action="store_true", help="replace the newest living token")
        deed.add_argument("--revoke", action="store_true", help="end its living tokens at once")
        hours = tokens.OVERLAP / timedelta(hours=1)
        about = "hours that a rotated token goes on working"
        parser.add_argument("--overlap-hours", type=float, default=hours, metavar="N", help=about)
        parser.add_argument("--token", type=int, metavar="ID", help="rotate or revoke this one")
        parser.add_argument("--reason", default="", metavar="TEXT", help="for --revoke; audited")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, **options: Any) -> None:
        check_text(options)
        deed = next((d for d in ("revoke", "rotate") if options[d]), "issue")
        try:
            with transaction.atomic():  # an account without the token that was asked for is no use
                getattr(self, f"_{deed}")(options)
        except FiredoorError as error:
            audit.record_refusal(error)
            raise CommandError(f"{error.sentence} [{error.code}]", returncode=1) from error

    def _issue(self, options: dict[str, Any]) -> None:
        workspace = _workspace(options)
        account = _found(options["name"], workspace) or _made(options, workspace)
        if options["role"] and options["role"] != account.role:
            raise CommandError(
                f"Nothing was made: the account {account.name!r} is {account.role} there. Leave "
                "--role out, or use another name.",
                returncode=1,
            )
        token, text = tokens.issue(account, actor=SYSTEM, lifetime=_lifetime(options))
        self._print(token, text, options)

    def _rotate(self, options: dict[str, Any]) -> None:
        old = _living(options)[0]
        token, text = tokens.rotate(
            old.pk,
            actor=SYSTEM,
            lifetime=_lifetime(options),
            overlap=_overlap(options),
        )
        self._print(token, text, options)

    def _revoke(self, options: dict[str, Any]) -> None:
        ended = [
            tokens.revoke(token.pk, actor=SYSTEM, reason=options["reason"])
            for token in _living(options)
        ]
        if options["json"]:
            self.stdout.write(json.dumps({"revoked": [_told(token) for token in ended]}))
        for token in ended:
            self.stderr.write(f"Token {token.pk} ({token.hint}…) works no longer.")

    def _print(self, token: Token, text: str, options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps({"token": text, **_told(token)}))
            return
        account = token.account
        self.stderr.write(
            f"Token {token.pk} of {account}, until {token.expires_at:%Y-%m-%d %H:%M} UTC. "
            "It is shown this once:"
        )
        self.stdout.write(text)


def _workspace(options: dict[str, Any]) -> Workspace | None:
    slug = options["workspace"]
    return None if slug is None else visible_workspace(SYSTEM, slug)


def _found(name: str, workspace: Workspace | None) -> ServiceAccount | None:
    return ServiceAccount.objects.filter(workspace=workspace, name=name.strip()).first()


def _made(options: dict[str, Any], workspace: Workspace | None) -> ServiceAccount:
    if options["role"] is None:
        raise CommandError(
            f"Nothing was made: there is no account {options['name']!r} there yet; say its --role.",
            returncode=1,
        )
    role = Role(options["role"])
    return service_accounts.create(options["name"], role=role, workspace=workspace, actor=SYSTEM)


def _living(options: dict[str, Any]) -> list[Token]:
    """The living tokens of the account that is named, newest first, or the one of them."""
    account = _found(options["name"], _workspace(options))
    if account is None:
        raise service_accounts.AccountNotFound(options["name"])
    living = Token.objects.filter(tokens.LIVING, account=account).order_by("-pk")
    if options["token"] is not None:
        living = living.filter(pk=options["token"])
    if not living:
        raise CommandError(
            f"Nothing was done: the account {account.name!r} has no such living token.",
            returncode=1,
        )
    return list(living)


def _lifetime(options: dict[str, Any]) -> timedelta:
    try:
        return timedelta(days=options["expires_days"])
    except (OverflowError, ValueError):
        raise tokens.LifetimeInvalid from None


def _overlap(options: dict[str, Any]) -> timedelta:
    """How long the old token works on; without end means as long as it would have."""
    try:
        return timedelta(hours=options["overlap_hours"])
    except (OverflowError, ValueError):
        raise tokens.LifetimeInvalid from None


def _told(token: Token) -> dict[str, Any]:
    account = token.account
    return {
        "id": token.pk,
        "hint": token.hint,
        "account": account.pk,
        "name": account.name,
        "role": account.role,
        "workspace": account.workspace.slug if account.workspace else None,
        "expires_at": token.expires_at.isoformat(),
    }
