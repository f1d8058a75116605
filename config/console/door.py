"""How a person gets into the console: the one call that the demo and first set-ups make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from workspaces import audit
from workspaces.actors import SYSTEM
from workspaces.models import Membership, Workspace
from workspaces.permissions import Role

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def open_door(
    user: User, *, role: Role = Role.OPERATOR, workspace: Workspace | None = None
) -> Membership:
    """Let ``user`` into the console with ``role`` in ``workspace``, or in all of them.

    Sets ``is_staff`` and the membership, which is all the console asks for, in one transaction
    with an audit event of the system. Doing it again changes the role. *Hole:* it asks nobody:
    call it from commands, never from a page.
    """
    with transaction.atomic():
        user.is_staff = True
        user.save(update_fields=["is_staff"])
        membership, _made = Membership.objects.update_or_create(
            user=user, workspace=workspace, defaults={"role": role.value}
        )
        audit.record(
            actor=SYSTEM,
            action="members.grant",
            workspace=workspace,
            object_type="membership",
            object_id=membership.pk,
            after={"user": user.get_username(), "role": role.value},
        )
    return membership
