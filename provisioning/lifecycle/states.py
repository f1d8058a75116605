"""How may a workspace's lifecycle move? Pure; `moves.move` is the only way to move one.

Purging comes later: `ready` and `provision_failed` will lead to `purging` too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a workspace stands on its way to being usable."""

    REQUESTED = "requested"
    PROVISIONING = "provisioning"
    READY = "ready"
    PROVISION_FAILED = "provision_failed"


@dataclass(frozen=True)
class Move:
    """One way to get on, and when it is taken."""

    name: str
    source: State
    target: State
    when: str


BEGIN = Move("begin", State.REQUESTED, State.PROVISIONING, "its job was enqueued")
FINISH = Move("finish", State.PROVISIONING, State.READY, "its job came to the step 'ready'")
FAIL = Move("fail", State.PROVISIONING, State.PROVISION_FAILED, "its job ended dead or cancelled")
RETRY = Move("retry", State.PROVISION_FAILED, State.PROVISIONING, "an operator retried its job")

MOVES: tuple[Move, ...] = (BEGIN, FINISH, FAIL, RETRY)
