"""``manage.py workspace …``: make, list and close tenants, and let people in, as the system."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from config.console.door import open_door
from workspaces.actors import SYSTEM
from workspaces.closing import close
from workspaces.errors import FiredoorError
from workspaces.management.typed import check_text
from workspaces.models import Workspace
from workspaces.permissions import Role
from workspaces.visibility import named

_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
NAME_LIMIT = 200


class Command(BaseCommand):
    help = "Make, list and close workspaces, and let people in. Users come from createsuperuser."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        add = verbs.add_parser("add", help="make a workspace")
        add.add_argument("slug", help="lower case, digits and hyphens")
        add.add_argument("--name", default="", help="for people; the slug if not given")
        verbs.add_parser("list", help="list the workspaces")
        shut = verbs.add_parser("close", help="refuse new work and stop what is there")
        shut.add_argument("slug")
        shut.add_argument("--reason", required=True)
        member = verbs.add_parser("member", help="let a user into the console")
        member.add_argument("username")
        member.add_argument("--role", choices=[role.value for role in Role], required=True)
        member.add_argument("--workspace", metavar="SLUG", help="one workspace; else all of them")

    def handle(self, *_args: Any, **options: Any) -> None:
        check_text(options)
        try:
            getattr(self, f"_{options['verb']}")(options)
        except FiredoorError as error:
            raise CommandError(f"{error.sentence} [{error.code}]") from error

    def _add(self, options: dict[str, Any]) -> None:
        slug = options["slug"]
        if not _SLUG.fullmatch(slug):
            raise CommandError(f"Nothing was made: {slug!r} is no slug; use a-z, 0-9 and hyphens.")
        name = (options["name"] or slug).strip()
        if not name.isprintable() or not 1 <= len(name) <= NAME_LIMIT:
            raise CommandError(
                f"Nothing was made: a name has from 1 to {NAME_LIMIT} characters, in one line."
            )
        made, new = Workspace.objects.get_or_create(slug=slug, defaults={"name": name})
        self.stdout.write(f"{made.slug}: {'made' if new else 'was there before'}.")

    def _list(self, _options: dict[str, Any]) -> None:
        for workspace in Workspace.objects.all():
            state = "closed" if workspace.closed_at else "open"
            self.stdout.write(f"{workspace.slug}  {state}  {workspace.name}")

    def _close(self, options: dict[str, Any]) -> None:
        workspace = self._named(options["slug"])
        close(workspace.pk, actor=SYSTEM, reason=options["reason"])
        self.stdout.write(f"{workspace.slug}: closed.")

    def _member(self, options: dict[str, Any]) -> None:
        user = get_user_model().objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(
                f"Nothing was changed: there is no user {options['username']!r}. "
                "Make one with manage.py createsuperuser, which gives no rights here by itself."
            )
        workspace = self._named(options["workspace"]) if options["workspace"] else None
        open_door(user, role=Role(options["role"]), workspace=workspace)
        place = workspace.slug if workspace else "all workspaces"
        self.stdout.write(f"{user.get_username()}: {options['role']} of {place}.")

    @staticmethod
    def _named(slug: str) -> Workspace:
        found = named(slug, Workspace.objects.all())
        if found is None:
            raise CommandError(f"Nothing was done: there is no workspace {slug!r}.")
        return found
