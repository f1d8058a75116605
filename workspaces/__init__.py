"""Tenants, members and their rights, and the audit trail: what every other app stands on."""
