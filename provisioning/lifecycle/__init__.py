"""The way of a tenant from requested to ready."""
