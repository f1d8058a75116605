"""What Firedoor's SQLite can do is known, so that no reading has to find it out by writing."""

from __future__ import annotations

from typing import Any

from django.db.backends.signals import connection_created
from django.dispatch import receiver


@receiver(connection_created)
def say_what_it_can(*, connection: Any, **_: Any) -> None:
    """Say that this connection reads JSON, which all of Firedoor rests on.

    Django tries it in a transaction by itself, at a connection's first page of jobs. A transaction
    here takes the database's one write lock (``transaction_mode``): beside a process that writes,
    the page would wait for it, and once its patience was over, have it that there is no JSON, for
    as long as the connection lives.
    """
    if connection.vendor == "sqlite":
        connection.features.supports_json_field = True
