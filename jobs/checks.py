"""System checks over the registered kinds: what would fail at 3 a.m. fails at start-up."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings
from django.core import checks

from jobs import registry
from jobs.registry import KindSpec
from workspaces.permissions import ACTIONS

NAME_LIMIT = 100


def register() -> None:
    checks.register(check_kinds, "jobs")


def check_kinds(**_kwargs: Any) -> list[checks.CheckMessage]:
    """Every fault of every registered kind."""
    return [fault for spec in registry.KINDS.values() for fault in _faults(spec)]


def _faults(spec: KindSpec) -> Iterator[checks.CheckMessage]:
    if spec.queue not in settings.FIREDOOR_QUEUES:
        known = ", ".join(settings.FIREDOOR_QUEUES)
        yield _error(spec, "E001", f"queue {spec.queue!r} does not exist", f"Queues are: {known}.")
    if not 0 < spec.soft_time_limit < spec.time_limit:
        yield _error(spec, "E002", "soft_time_limit must be above 0 and below time_limit")
    if spec.permission not in ACTIONS:
        yield _error(spec, "E003", f"no role has the permission {spec.permission!r}")
    if min(spec.max_retries, spec.max_losses) < 0:
        yield _error(spec, "E004", "max_retries and max_losses must not be negative")
    if spec.retry_backoff <= 0 or spec.retry_backoff_max < spec.retry_backoff:
        yield _error(spec, "E005", "retry_backoff must be above 0 and at most retry_backoff_max")
    if spec.lease.total_seconds() < 3:
        yield _error(spec, "E006", "a lease under 3 s is lost to any pause of the process")
    if not callable(spec.risk) and spec.risk not in (1, 2, 3):
        yield _error(spec, "E007", "risk is 1, 2 or 3, or a function of the job")
    if spec.per_gate is not None and (spec.throttle is None or spec.per_workspace is not None):
        yield _error(spec, "E010", "per_gate needs a throttle, and no per_workspace beside it")
    counts = (spec.per_gate, spec.per_workspace, spec.together)
    if any(count is not None and count < 1 for count in counts):
        yield _error(spec, "E011", "a share, and what one message wakes, is at least 1")
    yield from _step_faults(spec)


def _step_faults(spec: KindSpec) -> Iterator[checks.CheckMessage]:
    for step in spec.steps:
        if not step.name or ":" in step.name or len(step.name) > NAME_LIMIT:
            hint = f"A name is 1 to {NAME_LIMIT} characters without a colon."
            yield _error(spec, "E008", f"step name {step.name!r} cannot be used", hint)
        if step.remembers is not None and step.remembers.total_seconds() <= 0:
            yield _error(spec, "E009", f"step {step.name!r}: remembers must be above zero")
        if _is_lazy(step.function):
            what = f"step {step.name!r} is async or a generator: calling it would do nothing"
            yield _error(spec, "E012", what, "Make it a plain function; asyncio.run inside works.")


def _is_lazy(function: Callable[..., Any]) -> bool:
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(is_one(function) for is_one in kinds)


def _error(spec: KindSpec, code: str, what: str, hint: str = "") -> checks.Error:
    return checks.Error(f"kind {spec.name}: {what}", hint=hint or None, id=f"jobs.{code}")
