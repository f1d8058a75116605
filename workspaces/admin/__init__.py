"""What the console shows of tenants, members, programs and the audit trail."""

from workspaces.admin import accounts, records

__all__ = ["accounts", "records"]
