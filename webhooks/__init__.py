"""Outbound webhooks: what is signed, where it may go, and how it is sent."""
