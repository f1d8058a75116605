"""Jobs for the API's tests: a kind that anybody may enqueue, and jobs that came to grief."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jobs import registry
from jobs.kinds import Intended, Run, job_kind
from jobs.models import Job
from jobs.testing import at_step, drain
from tests.drills.faults import strike
from workspaces.models import Workspace

PUBLIC = "drills.public"


@contextmanager
def public_kind() -> Iterator[str]:
    """A kind that is open to the API and takes any JSON, for as long as the block lasts."""

    def public(run: Run, *, anything: Any = None) -> None: ...

    job_kind(PUBLIC, api=True)(public)
    try:
        yield PUBLIC
    finally:
        registry.KINDS.pop(PUBLIC, None)


def waiting(intended: Intended, workspace: Workspace, key: str = "order-1") -> Job:
    """A job that is not due for an hour."""
    return intended.enqueue(workspace=workspace, key=key, countdown=3600)


def dead(intended: Intended, workspace: Workspace, step: str, key: str = "order-1") -> Job:
    """A job whose named step refused for good."""
    job = waiting(intended, workspace, key)
    with at_step(step, "started", lambda _step: strike("terminal")):
        drain()
    job.refresh_from_db()
    assert job.state == "dead", job.state
    return job


def body(response: Any) -> Any:
    return json.loads(response.content)
