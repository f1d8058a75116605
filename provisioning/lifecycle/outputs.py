"""Which of a module's outputs are kept? All, as long as they can be stored.

A step's output is bounded, and must not fail for a value that is only handed on.
"""

from __future__ import annotations

from typing import Any

from jobs.params import canonical

_MOST = 32 * 1024  # bytes of JSON, half of what a step may return


def storable(outputs: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return what can be kept, and the names of what is left out: too large, or no plain JSON."""
    kept: dict[str, Any] = {}
    left_out: list[str] = []
    room = _MOST
    for name, value in outputs.items():
        size = _size(name, value)
        if size is None or size > room:
            left_out.append(name[:100])
        else:
            kept[name] = value
            room -= size
    return kept, left_out[:100]


def _size(name: str, value: Any) -> int | None:
    try:
        return len(canonical({name: value}).encode())
    except (TypeError, ValueError):
        return None
