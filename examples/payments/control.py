"""What tests, drills and the demo tell a running provider, and ask of it."""

from __future__ import annotations

import time
from typing import Any

import httpx2

from examples.payments.faults import Fault, Route
from jobs.worker import identity


class ProviderControl:
    """The provider at ``url``, seen from outside. Raises what httpx2 raises."""

    def __init__(self, url: str) -> None:
        self._url = url

    def script(self, route: Route, *faults: Fault) -> None:
        """Let ``faults`` meet the next calls of ``route``, in order; none clears what waits."""
        told = [fault.model_dump(exclude_defaults=True) for fault in faults]
        self._post({"script": {route: told}})

    def down(self, route: Route, status: int = 503) -> None:
        """Answer ``status`` to every call of ``route``, until ``script`` is called for it.

        Or until this process is gone, which then could not call it.
        """
        self.script(route, Fault(status=status, times=None, while_alive=identity()))

    def times(self, *, lag: float | None = None, remembers: float | None = None) -> None:
        """Set, in seconds, when a charge is found and how long a key is known."""
        self._post({"lag": lag, "remembers": remembers})

    def effects(self) -> dict[str, int]:
        """How often each effect happened."""
        counts: dict[str, int] = self._get("/effects")
        return counts

    def wait_for(self, effect: str, count: int = 1, *, seconds: float = 30.0) -> None:
        """Return when ``effect`` has happened ``count`` times; raises TimeoutError after that."""
        ends = time.monotonic() + seconds
        while (seen := self.effects()[effect]) < count:
            if time.monotonic() > ends:
                raise TimeoutError(f"{effect} happened {seen} times in {seconds} s, not {count}")
            time.sleep(0.05)  # noqa: TID251 (a bounded poll of another process)

    def requests(self, route: Route) -> list[dict[str, Any]]:
        """The calls of ``route`` so far: ``key request_id traceparent worked fault``, in order."""
        return [request for request in self._get("/requests") if request["route"] == route]

    def _get(self, path: str) -> Any:
        return httpx2.get(self._url + path, trust_env=False).raise_for_status().json()

    def _post(self, body: dict[str, Any]) -> None:
        httpx2.post(f"{self._url}/control", json=body, trust_env=False).raise_for_status()
