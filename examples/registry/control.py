"""What tests, drills and the demo tell a running registry, and ask of it."""

from __future__ import annotations

from typing import Any

import httpx2

from examples.payments.faults import Fault
from jobs.worker import identity


class RegistryControl:
    """The registry at ``url``, seen from outside. Raises what httpx2 raises."""

    def __init__(self, url: str) -> None:
        self.url = url

    def script(self, *faults: Fault) -> None:
        """Let ``faults`` meet the next registrations, in order; none clears what waits."""
        told = [fault.model_dump(exclude_defaults=True) for fault in faults]
        answer = httpx2.post(f"{self.url}/control", json=told, trust_env=False)
        answer.raise_for_status()

    def down(self, status: int = 503) -> None:
        """Answer ``status`` to every registration, until ``up`` or ``script`` is called.

        Or until this process is gone, which then could not call them.
        """
        self.script(Fault(status=status, times=None, while_alive=identity()))

    def up(self) -> None:
        """Register again."""
        self.script()

    def registrations(self, workspace: str) -> list[dict[str, Any]]:
        """Every registration of a workspace, oldest first."""
        every = self._get("/registrations")
        return [line for line in every if line["request"]["workspace"] == workspace]

    def requests(self) -> list[dict[str, Any]]:
        """The registrations asked for so far: ``key request_id traceparent worked``, in order."""
        found: list[dict[str, Any]] = self._get("/requests")
        return found

    def _get(self, path: str) -> Any:
        return httpx2.get(self.url + path, trust_env=False).raise_for_status().json()
