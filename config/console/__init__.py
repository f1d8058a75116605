"""The operators' console: Django's admin under a name of its own, with one style sheet."""
