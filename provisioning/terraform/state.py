"""Did the state move? Its serial and lineage, before and now.

An unmoved serial alone proves nothing: the first resource of a new stack can be in flight while
no state exists at all. A moved one does not say who moved it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from provisioning.terraform.errors import StateUnreadable


class Movement(StrEnum):
    """How the state stands to an earlier mark of it."""

    SAME = "same"
    MOVED = "moved"
    BEHIND = "behind"  # an older serial, or none at all: restored from a backup, or removed
    OTHER = "other"  # another lineage: not this state's future


@dataclass(frozen=True, slots=True)
class StateMark:
    """Where a state stands; serial 0 with an empty lineage means that there is none."""

    serial: int = 0
    lineage: str = ""

    @property
    def is_none(self) -> bool:
        """Whether there was no state."""
        return self.lineage == ""


def movement(before: StateMark, now: StateMark) -> Movement:
    """Compare two marks of what should be one state."""
    if before == now:
        return Movement.SAME
    if before.is_none:
        return Movement.MOVED
    if now.is_none:
        return Movement.BEHIND
    if before.lineage != now.lineage:
        return Movement.OTHER
    return Movement.MOVED if now.serial > before.serial else Movement.BEHIND


def read_file(path: Path) -> StateMark:
    """Read a local state. No file means no state. Raises StateUnreadable."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return StateMark()
    except OSError as error:
        raise StateUnreadable(
            f"Nothing was compared: the state {path.name} cannot be read ({error.strerror}). "
            "Check the disk and the rights of the worker's user."
        ) from error
    return mark_of(content)


def mark_of(content: bytes) -> StateMark:
    """Read a mark out of a state's text; empty text means no state. Raises StateUnreadable."""
    if not content.strip():
        return StateMark()
    try:
        state: dict[str, Any] = json.loads(content)
        return StateMark(int(state["serial"]), str(state["lineage"]))
    except (ValueError, KeyError, TypeError) as error:
        raise StateUnreadable(
            "Nothing was compared: the state is not a Terraform state. Restore it from a backup."
        ) from error
