"""What a request with an Idempotency-Key was, and what it was answered."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from workspaces.models.workspace import Workspace


class IdempotencyRecord(models.Model):
    """One key of one principal in one workspace; written by `workspaces.idempotency` alone.

    It is inserted before the work and answered in the same transaction, so a committed record
    always has its answer. Of the request only a digest is kept.
    """

    # No constraint of the database's: it would look the workspace up in every request, and a
    # workspace never vanishes; a record does, within a day.
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    principal = models.CharField(max_length=200)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=80)
    method = models.CharField(max_length=8)
    path = models.CharField(max_length=500)
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.BinaryField(default=b"")
    job_id = models.UUIDField(null=True)
    request_id = models.CharField(max_length=64)
    last_request_id = models.CharField(max_length=64, blank=True)
    replays = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["workspace", "principal", "key"], name="idempotency_key_once"
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["expires_at"], name="idempotency_expiry"),
        ]

    def __str__(self) -> str:
        return f"{self.principal}: {self.key}"
