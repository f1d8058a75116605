"""A file that counts effects: one line each, appended, so that a killed process loses none."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path


def happened(path: str, what: str) -> None:
    """Append one effect; whole lines, whoever else writes."""
    handle = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(handle, f"{what} {os.getpid()}\n".encode())
    finally:
        os.close(handle)


def effects(path: str | Path) -> Counter[str]:
    """How often each effect happened."""
    if not Path(path).exists():
        return Counter()
    return Counter(line.split()[0] for line in Path(path).read_text().splitlines())


def pids(path: str | Path, what: str) -> list[int]:
    """The processes that did an effect, in order."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return [int(line.split()[1]) for line in lines if line.split()[0] == what]
