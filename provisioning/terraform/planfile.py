"""What is in a saved plan file, without running the tool?

The file is a zip with executable content and no signature: an edited provisioner inside runs as
it stands. Only its sha256 tells, which is therefore what gets approved.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from provisioning.terraform.ask import ToolFailed
from provisioning.terraform.classify import Class, outcome
from provisioning.terraform.stack import LOCK
from provisioning.terraform.state import StateMark, mark_of

_LONGEST = 512 << 20  # bytes of one unpacked member; a state above this is not planned here


def sha256(file: Path) -> str:
    """Return the digest of the file's bytes."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def prior_state(file: Path) -> StateMark:
    """Return where the state stood when the plan was made. Raises ToolFailed, StateUnreadable."""
    return mark_of(_member(file, "tfstate") or b"")


def lock_file(file: Path) -> bytes | None:
    """Return the lock file that the plan was made with. Raises ToolFailed."""
    return _member(file, LOCK)


def _member(file: Path, name: str) -> bytes | None:
    try:
        with zipfile.ZipFile(file) as opened:
            if name not in opened.namelist():
                return None
            if opened.getinfo(name).file_size > _LONGEST:
                raise zipfile.BadZipFile(name)
            return opened.read(name)
    except (OSError, zipfile.BadZipFile, RuntimeError) as error:
        raise ToolFailed(
            outcome(Class.TERMINAL, "plan_unreadable"), type(error).__name__
        ) from error
