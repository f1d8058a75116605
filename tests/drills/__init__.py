"""An app like any user's own, joined by FIREDOOR_EXTRA_APPS: kinds that fail on purpose."""
