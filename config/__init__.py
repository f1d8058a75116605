"""Composition root: imports every app, is imported by none."""
