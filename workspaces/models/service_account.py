"""Programs that call the API, and the tokens that prove who they are."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from workspaces.models.workspace import Workspace
from workspaces.permissions import ROLES


class ServiceAccount(models.Model):
    """A program with one role in one workspace, or in all of them when `workspace` is empty.

    It is disabled (once) and never deleted: records name it as `service:<id>`.
    """

    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, null=True, blank=True, related_name="service_accounts"
    )
    name = models.CharField(max_length=100)
    role = models.CharField(max_length=16, choices=ROLES)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    disabled_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["name", "pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["workspace", "name"], name="service_account_once"),
            models.UniqueConstraint(
                fields=["name"], condition=Q(workspace=None), name="service_account_of_all_once"
            ),
            models.CheckConstraint(
                condition=Q(role__in=[role for role, _ in ROLES]), name="service_account_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.role} of {self.workspace or 'all workspaces'})"


class Token(models.Model):
    """One secret of an account. Only its SHA-256 is kept; `hint` is what people tell it by.

    `last_used_at` is right to the minute.
    """

    account = models.ForeignKey(ServiceAccount, on_delete=models.PROTECT, related_name="tokens")
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=16)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-pk"]

    def __str__(self) -> str:
        return f"{self.hint}…"
