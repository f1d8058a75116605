"""System checks: settings under which a promise of this app would not hold."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks


def register() -> None:
    checks.register(check_requests_are_not_atomic, "workspaces")


def check_requests_are_not_atomic(**_kwargs: Any) -> list[checks.CheckMessage]:
    """A transaction around the whole request would outlive the answer that it keeps.

    An Idempotency-Key is answered in a transaction that is over before the answer leaves, and a
    refusal is recorded once its own is rolled back.
    """
    return [
        checks.Error(
            f"the database {alias!r} has ATOMIC_REQUESTS",
            hint="Turn it off: views and services open the transactions that they need.",
            id="workspaces.E001",
        )
        for alias, database in settings.DATABASES.items()
        if database.get("ATOMIC_REQUESTS")
    ]
