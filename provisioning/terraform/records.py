"""What is written down about a run, and how is it written so that it survives?

A run is one execution of the tool in a directory of its own. Every record in it is written
once and synced to disk before its writer goes on.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

START = "start.json"  # by the supervisor before the tool starts, or by who forbids the start
TOOL = "tool.json"  # by the supervisor once the tool has a process
EXIT = "exit.json"  # by the supervisor when the tool has ended, or could not be executed
INTERRUPT = "interrupt.json"  # before the one SIGINT that a run may ever get
STDOUT = "stdout"
STDERR = "stderr"


def write_new(path: Path, record: dict[str, Any]) -> None:
    """Write a record that must not exist yet: of several writers exactly one succeeds.

    Raises FileExistsError for all others.
    """
    _write(path, record, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    _sync_folder(path.parent)


def write_whole(path: Path, record: dict[str, Any]) -> None:
    """Write a record that readers see complete or not at all."""
    draft = path.with_suffix(".draft")
    _write(draft, record, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    draft.replace(path)
    _sync_folder(path.parent)


def read(path: Path) -> dict[str, Any] | None:
    """Return the record, or None when there is none.

    Raises ValueError when there is one that cannot be understood.
    """
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    if not isinstance(record, dict):
        raise ValueError(f"{path.name} is not a record")
    return record


def _write(path: Path, record: dict[str, Any], flags: int) -> None:
    handle = os.open(path, flags, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(json.dumps(record).encode())
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
