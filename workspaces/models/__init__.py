"""Tenants, who acts in them, and what is kept of their deeds."""

from workspaces.models.audit_event import AuditEvent
from workspaces.models.idempotency_record import IdempotencyRecord
from workspaces.models.membership import Membership
from workspaces.models.service_account import ServiceAccount, Token
from workspaces.models.workspace import Workspace

__all__ = [
    "AuditEvent",
    "IdempotencyRecord",
    "Membership",
    "ServiceAccount",
    "Token",
    "Workspace",
]
