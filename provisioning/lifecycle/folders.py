"""In which folder does an attempt work, and what may be concluded from one?

    FIREDOOR_PROVISIONING/work/<root of the chain>/<job>-<attempt>   one apply, never used again
                                                  /plan-…, verify-…  gone when their step ends

An apply's folder exists before its intent is committed, so a missing one means "not this host".
Folders hold plans and logs in clear and are private. They stay until the job has succeeded: they
are the evidence that a reconcile reads. *Hole:* on another host they are missing, and nothing
can be told there, unless FIREDOOR_VAR is shared.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from django.conf import settings


@dataclass(frozen=True)
class Bench:
    """The place of one attempt of one job of a chain."""

    root_id: UUID
    job_id: UUID
    attempt: int

    @property
    def chain(self) -> Path:
        """Where all attempts of the chain work; made when it is missing."""
        folder = Path(settings.FIREDOOR_PROVISIONING) / "work" / str(self.root_id)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    @property
    def apply(self) -> Path:
        """The folder of this attempt's apply, which need not exist."""
        return self.chain / f"{self.job_id}-{self.attempt}"

    @contextmanager
    def passing(self, name: str) -> Iterator[Path]:
        """A fresh folder for something without effects, removed afterwards."""
        with tempfile.TemporaryDirectory(
            prefix=f"{name}-", dir=self.chain, ignore_cleanup_errors=True
        ) as folder:
            yield Path(folder)

    def clear(self) -> None:
        """Remove everything of the chain: nothing of it is in doubt any more."""
        shutil.rmtree(self.chain, ignore_errors=True)
