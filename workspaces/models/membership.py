"""Which person is what in which workspace."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from workspaces.models.workspace import Workspace
from workspaces.permissions import ROLES


class Membership(models.Model):
    """One person's role in one workspace, or in all of them when `workspace` is empty.

    A person may have both; they then hold the rights of either.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, null=True, blank=True, related_name="memberships"
    )
    role = models.CharField(max_length=16, choices=ROLES)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "workspace"], name="membership_once"),
            models.UniqueConstraint(
                fields=["user"], condition=Q(workspace=None), name="membership_of_all_once"
            ),
            models.CheckConstraint(
                condition=Q(role__in=[role for role, _ in ROLES]), name="membership_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.role} of {self.workspace or 'all workspaces'}"
