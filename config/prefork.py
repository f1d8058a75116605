"""Celery's prefork pool, which after a lost broker forgets which of its children are busy.

As it comes, the first messages that follow may then be handed to children that run a job, and wait
for its end while others are idle. A module of this name, since Celery shows it as the pool's.
"""

from __future__ import annotations

from typing import Any

from celery.concurrency import asynpool, prefork


class Pool(asynpool.AsynPool):
    """Remembers, whatever happens to the broker, who is busy."""

    _cache: dict[int, Any]  # its stubs lack these
    _busy_workers: set[int]
    _fileno_to_inq: dict[int, Any]

    def flush(self) -> None:
        """Forget what was not begun, when the connection to the broker was lost."""
        super().flush()
        self._busy_workers.update(self._busy())

    def _busy(self) -> set[int]:
        """Where the children that run a job take their next one."""
        children: list[Any] = [job._write_to for job in self._cache.values() if job._accepted]
        inlets = {child.inqW_fd: child for child in children if child is not None}
        # One that has died may have left its number to another.
        return {fd for fd, child in inlets.items() if self._fileno_to_inq.get(fd) is child}


class TaskPool(prefork.TaskPool):
    Pool = Pool
