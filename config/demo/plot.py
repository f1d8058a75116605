"""What a demo can be about: two jobs that fail half-way for one reason, which then is mended."""

from __future__ import annotations

from typing import Protocol

from jobs.models import Job
from workspaces.actors import Actor
from workspaces.models import Workspace


class Plot(Protocol):
    """One subject of the story, on real services."""

    @property
    def opening(self) -> str:
        """What the jobs do, and what on."""

    @property
    def broken(self) -> str:
        """What does not work at first."""

    @property
    def mended(self) -> str:
        """What works again, also as the reason of the retry."""

    def let_it_fail(self) -> None:
        """Break it."""

    def mend(self) -> None:
        """Mend it."""

    def begin(self, workspace: Workspace, actor: Actor) -> Job:
        """Ask for the thing; answers the job that makes it."""

    def effects(self, job: Job) -> dict[str, int]:
        """How often each effect of the job's chain really happened, by where it happened."""

    def ending(self, job: Job) -> str:
        """How the thing stands now."""
