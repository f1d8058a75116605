"""The outside world: a provider that acts, remembers keys for a while, and answers when asked."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field

REMEMBERS = 3600.0


@dataclass
class Clock:
    """The one time of a scene, in seconds. Rows are moved by as much as it is."""

    now: float = 0.0


@dataclass(frozen=True)
class Intent:
    """One step of one epoch of one chain: what must happen outside at most once."""

    root: uuid.UUID
    epoch: int
    step: str


@dataclass
class Provider:
    """Counts what happened. A key that it remembers makes nothing happen twice."""

    clock: Clock
    effects: Counter[Intent] = field(default_factory=Counter)
    first_sent: dict[str, float] = field(default_factory=dict)
    keys: dict[Intent, str] = field(default_factory=dict)

    def receives(self, intent: Intent, key: str) -> None:
        """A request came in: one intent has one key, and no two share one."""
        assert self.keys.setdefault(intent, key) == key, f"{intent} was sent under two keys"
        assert list(self.keys.values()).count(key) == 1, f"{intent} shares its key"

    def acts(self, intent: Intent, key: str) -> None:
        """The request takes effect, unless its key was seen and is remembered still."""
        if key:
            first = self.first_sent.get(key)
            if first is not None and self.clock.now - first <= REMEMBERS:
                return
            self.first_sent[key] = self.clock.now
        self.effects[intent] += 1

    def output(self, intent: Intent) -> object:
        """What the provider answers about this effect, then and whenever it is asked."""
        return {"step": intent.step, "epoch": intent.epoch}
