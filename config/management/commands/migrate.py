"""``manage.py migrate``: one at a time on a database that is a file.

Two at once on a fresh one, as by two ``make demo``, would both make the same tables: the second
died of it. PostgreSQL is deployed to by one job, as docker/compose.yaml does.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, connections


class Command(migrate.Command):
    """Django's own, behind a lock that lies beside the file."""

    def handle(self, *args: Any, **options: Any) -> None:
        database = connections[options.get("database") or DEFAULT_DB_ALIAS]
        name = str(database.settings_dict["NAME"])
        if database.vendor != "sqlite" or not Path(name).is_absolute():
            super().handle(*args, **options)
            return
        with self._alone(Path(f"{name}.migrating")):
            super().handle(*args, **options)

    @contextmanager
    def _alone(self, path: Path) -> Iterator[None]:
        """While no other process migrates. The lock ends with its process, whatever happens."""
        with path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.stderr.write("Another migrate is at work on this database; waiting for it.")
                self.stderr.flush()
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
