"""Workspaces and their audit trail over HTTP."""
