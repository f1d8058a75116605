"""Short jobs that one message wakes together: a message costs more than such a job does.

Which of them are in one message is of no matter to any of them: each is claimed, run and ended by
itself, and a message stays a hint.
*Hole:* one that is slow keeps those after it in its message waiting: no longer than ``LATEST``, or
than it runs itself. What a killed worker had not begun is woken again like any lost message. What
is given back goes to the queue of its kind, also where it was moved to another one meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobs import registry
from jobs.fence import Wake

LATEST = 2.0  # seconds after its message was taken in which a job of it is begun
FEWEST = 16  # messages that a number of wakes is shared out to, so that all children have some


def grouped(wakes: Iterable[Wake]) -> Iterator[tuple[Wake, ...]]:
    """The wakes by messages. Only those for the queue of their kind share one."""
    alike: dict[str, list[Wake]] = {}
    for wake in wakes:
        spec = registry.find(wake.kind)
        if spec is None or spec.together == 1 or wake.queue not in ("", spec.queue):
            yield (wake,)
        else:
            alike.setdefault(wake.kind, []).append(wake)
    for kind, found in alike.items():
        size = max(1, min(registry.named(kind).together, len(found) // FEWEST))
        for start in range(0, len(found), size):
            yield tuple(found[start : start + size])
