"""What the provider did, one line a deed, in a file that outlives it.

A line is written by one ``write`` to a descriptor opened with ``O_APPEND`` before the caller gets
an answer, so a provider killed at any moment has a line for every effect it answered for, and
never half of one between two others. Not promised: survival of a power cut (nothing is synced).
"""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def append(path: Path, record: Record) -> None:
    """Add one deed, whole or not at all. Raises OSError where it could not be kept.

    Only one process may write a ledger: a line that did not fit is cut off again.
    """
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if os.write(descriptor, line) != len(line):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, "nothing was done, there is no room for it", str(path))
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Record]:
    """Every deed so far, oldest first; none where the file does not exist."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def counts(path: Path) -> Counter[str]:
    """How often each effect happened: ``counts(path)["charge"] == 1``."""
    return Counter(record["effect"] for record in read(path))
