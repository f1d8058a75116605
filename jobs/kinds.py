"""The face that authors of kinds see. Everything a ``kinds.py`` needs is importable from here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from jobs.enqueue import enqueue
from jobs.errors import Refused
from jobs.models import Job
from jobs.outcomes import RateLimited, Terminal, Transient
from jobs.params import model_of
from jobs.registry import After, Before, KindSpec, register
from jobs.run import Run
from jobs.steps import CannotTell, DidNotHappen, Happened, Intent, Step, step
from jobs.stops import Defer
from jobs.tracing import outgoing_headers
from workspaces.actors import SYSTEM, Actor
from workspaces.models import Workspace

if TYPE_CHECKING:
    from django.contrib.auth.models import User

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Intended:
    """A kind with its params, not yet enqueued."""

    spec: KindSpec
    params: Mapping[str, object]
    queue: str = ""

    def on(self, queue: str) -> Intended:
        """The same in another queue than its kind's."""
        return replace(self, queue=queue)

    def enqueue(
        self,
        *,
        workspace: Workspace | int | str,
        key: str,
        eta: datetime | None = None,
        countdown: float | None = None,
        actor: Actor | User = SYSTEM,
        request_id: str = "",
        traceparent: str = "",
    ) -> Job:
        """Record the intent; see ``jobs.enqueue.enqueue`` for what is guaranteed and raised."""
        return enqueue(
            self.spec,
            workspace=workspace,
            key=key,
            params=self.params,
            eta=eta,
            countdown=countdown,
            actor=actor,
            request_id=request_id,
            traceparent=traceparent,
            queue=self.queue,
        )


class Kind(Generic[P, R]):
    """A registered handler. Not called directly: ``kind.s(…).enqueue(…)``."""

    def __init__(self, spec: KindSpec) -> None:
        self.spec = spec
        self._signature = inspect.signature(spec.handler)

    @property
    def name(self) -> str:
        return self.spec.name

    def s(self, *args: P.args, **kwargs: P.kwargs) -> Intended:
        """The kind with these params. TypeError for a wrong name or a missing one."""
        bound = self._signature.bind(None, *args, **kwargs)
        run_name = next(iter(self._signature.parameters))
        return Intended(self.spec, {k: v for k, v in bound.arguments.items() if k != run_name})

    def before(self, hook: Before) -> Before:
        """Call ``hook(job, verb)`` under the job's lock; it refuses by raising Refused."""
        self.spec.before_hooks.append(hook)
        return hook

    def after(self, hook: After) -> After:
        """Call ``hook(job, verb or final state, successor)`` in the kernel's transaction.

        On a verb, raising refuses it. On a final state a hook that raises is undone alone and
        called again later, so it must be safe to repeat.
        """
        self.spec.after_hooks.append(hook)
        return hook


def job_kind(
    name: str,
    *,
    steps: tuple[Step[..., Any], ...] = (),
    queue: str = "default",
    version: int = 1,
    risk: int | Callable[[Job], int] = 1,
    api: bool = False,
    permission: str = "jobs.operate",
    redact: tuple[str, ...] = (),
    runbook: str = "",
    autoretry_for: tuple[type[BaseException], ...] = (),
    dont_autoretry_for: tuple[type[BaseException], ...] = (),
    max_retries: int = 3,
    retry_backoff: float = 1,
    retry_backoff_max: float = 600,
    retry_jitter: bool = True,
    soft_time_limit: float = 840,
    time_limit: float = 900,
    deadline: timedelta | None = timedelta(hours=24),
    max_losses: int = 3,
    loss_is_failure: bool = False,
    lease: timedelta = timedelta(seconds=60),
    throttle: str | Callable[..., str] | None = None,
    per_workspace: int | None = None,
    per_gate: int | None = None,
    together: int = 1,
    alert: str | None = "dead_letter",
    retention: timedelta = timedelta(days=30),
    retention_dead: timedelta = timedelta(days=180),
) -> Callable[[Callable[Concatenate[Run, P], R]], Kind[P, R]]:
    """Register a handler as a kind of job. Limits and backoffs are in seconds.

    The handler's params are the job's: annotated, JSON only, checked strictly at enqueue.
    ``name`` is ``app.name`` and stable for ever.
    """
    policy = {k: v for k, v in locals().items() if k not in ("name", "steps")}

    def made(handler: Callable[Concatenate[Run, P], R]) -> Kind[P, R]:
        spec = KindSpec(
            name=name, handler=handler, steps=steps, params=model_of(name, handler), **policy
        )
        register(spec)
        return Kind(spec)

    return made


__all__ = [
    "CannotTell",
    "Defer",
    "DidNotHappen",
    "Happened",
    "Intended",
    "Intent",
    "Job",
    "Kind",
    "RateLimited",
    "Refused",
    "Run",
    "Step",
    "Terminal",
    "Transient",
    "job_kind",
    "outgoing_headers",
    "step",
]
