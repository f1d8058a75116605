"""A registry of workspaces on this machine, where provisioned workspaces are registered.

Tests, drills and the demo run on it: a real HTTP server that honours idempotency keys, can be told
to fail, and keeps a ledger, so that "registered once" is counted where it happens.
"""
