"""Runs of infrastructure stacks."""
