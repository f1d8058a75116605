"""What the console shows of tenants, members and the audit trail."""

from workspaces.admin import records

__all__ = ["records"]
