"""Which kinds of job exist, and the policy of each."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pydantic

from jobs.backoff import SPREAD, delay_after
from jobs.errors import UnknownKind
from jobs.models import Job
from jobs.states import Effect
from jobs.steps import Step

Before = Callable[[Job, str], None]
After = Callable[[Job, str, Job | None], None]
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


@dataclass(kw_only=True)
class KindSpec:
    """A registered sort of job: its handler, steps and policy. Durations are in seconds.

    ``name`` is stable for ever: rows, messages, metrics and dashboards carry it. Without
    ``rereads`` the turns of its loops are on record elsewhere too: an attempt does not read back
    the checkpoints of earlier ones, however many there are. It must not ask for a turn twice.
    """

    name: str
    handler: Callable[..., Any]
    steps: tuple[Step[..., Any], ...]
    params: type[pydantic.BaseModel]
    queue: str = "default"
    version: int = 1
    risk: int | Callable[[Job], int] = 1
    api: bool = False
    permission: str = "jobs.operate"
    redact: tuple[str, ...] = ()
    runbook: str = ""
    autoretry_for: tuple[type[BaseException], ...] = ()
    dont_autoretry_for: tuple[type[BaseException], ...] = ()
    max_retries: int = 3
    retry_backoff: float = 1
    retry_backoff_max: float = 600
    retry_jitter: bool = True
    soft_time_limit: float = 840
    time_limit: float = 900
    deadline: timedelta | None = timedelta(hours=24)
    max_losses: int = 3
    loss_is_failure: bool = False
    lease: timedelta = timedelta(seconds=60)
    throttle: str | Callable[..., str] | None = None
    per_workspace: int | None = None
    per_gate: int | None = None
    rereads: bool = True
    together: int = 1
    alert: str | None = "dead_letter"
    retention: timedelta = timedelta(days=30)
    retention_dead: timedelta = timedelta(days=180)
    before_hooks: list[Before] = field(default_factory=list)
    after_hooks: list[After] = field(default_factory=list)

    @property
    def is_shared(self) -> bool:
        """Whether only so many are under way at once: the upkeep pass alone then publishes them."""
        return self.per_workspace is not None or self.per_gate is not None

    def step_named(self, name: str) -> Step[..., Any] | None:
        """The declared step behind a stored name (``page:17`` belongs to ``page``)."""
        base = name.split(":", 1)[0]
        return next((s for s in self.steps if s.name in (name, base)), None)

    def can_call(self, name: str) -> bool:
        """Whether a run of this kind, as it is declared now, can call the step of a stored name."""
        return any(name.startswith(f"{s.name}:") if s.many else s.name == name for s in self.steps)

    @property
    def read_back(self) -> tuple[str, ...] | None:
        """The stored names that an attempt reads back; None for all there are."""
        return None if self.rereads else tuple(s.name for s in self.steps if not s.many)

    def delay(
        self, count: int, *, own: float | None = None, retry_after: float | None = None
    ) -> float:
        """Seconds to wait after failure or loss number ``count``, jitter drawn here."""
        return delay_after(
            count,
            base=self.retry_backoff,
            cap=self.retry_backoff_max,
            spread=random.uniform(0.0, SPREAD) if self.retry_jitter else 0.0,  # noqa: S311
            own=own,
            retry_after=retry_after,
        )

    def risk_of(self, job: Job) -> int:
        return self.risk(job) if callable(self.risk) else self.risk


KINDS: dict[str, KindSpec] = {}


def register(spec: KindSpec) -> None:
    """Add a kind. Raises ValueError for a bad or taken name, or steps that do not fit."""
    if not _NAME.fullmatch(spec.name) or len(spec.name) > 100:
        raise ValueError(f"kind {spec.name!r}: a name is app.name, lower case, at most 100 long")
    known = KINDS.get(spec.name)
    if known is not None and _home(known) != _home(spec):
        raise ValueError(f"kind {spec.name!r} is already registered by {_home(known)}")
    names = [s.name for s in spec.steps]
    if len(set(names)) != len(names):
        raise ValueError(f"kind {spec.name!r}: two steps have one name")
    if not spec.rereads and any(s.many and s.effect is not Effect.LOCAL for s in spec.steps):
        raise ValueError(
            f"kind {spec.name!r}: an intent must be read back, and only local has none"
        )
    KINDS[spec.name] = spec


def _home(spec: KindSpec) -> str:
    return f"{spec.handler.__module__}.{spec.handler.__qualname__}"


def find(name: str) -> KindSpec | None:
    """The kind, or None while this process knows no such kind (rolling deploys make that)."""
    return KINDS.get(name)


def named(name: str) -> KindSpec:
    """The kind. Raises UnknownKind."""
    spec = KINDS.get(name)
    if spec is None:
        raise UnknownKind(
            f"Nothing was done: no kind of job is called {name!r}. "
            "Check the name with `manage.py job kinds`, or deploy the code that registers it."
        )
    return spec
