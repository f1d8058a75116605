"""Webhooks over HTTP: endpoints, deliveries, and what is done to them."""
