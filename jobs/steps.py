"""Steps as authors write them: named checkpoints, each with the effect it has on the world.

========== ===================================================================================
repeatable (``@step``) may run again after a crash; its stored output stops it from doing so.
local      changes our database only: function and checkpoint commit together, exactly once.
keyed      the provider takes our key and remembers it for ``remembers``.
once       neither: a crash between "started" and "finished" leaves the truth with the provider.
========== ===================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from jobs.states import Effect

P = ParamSpec("P")
R = TypeVar("R")
Boundary = Literal["provider", "agent", "repository"]
STORED_NAME_LIMIT = 120


@dataclass(frozen=True)
class Intent:
    """What a ``reconcile`` is told: the key sent, when the effect was started, by which attempt."""

    key: str
    started_at: datetime
    attempt: int


@dataclass(frozen=True)
class Happened:
    """The effect happened, and this is the output the step would have returned."""

    output: object = None


@dataclass(frozen=True)
class DidNotHappen:
    """The effect did not happen. Believed only once the attempt that began it is surely over."""


@dataclass(frozen=True)
class CannotTell:
    """Nobody can know from here. The job ends uncertain."""

    reason: str


Observed = Happened | DidNotHappen | CannotTell


@dataclass(frozen=True)
class Step(Generic[P, R]):
    """A named checkpoint. Called as ``run(step, …)``; never called directly by a handler.

    The output must be JSON (at most 64 kB) and enough to go on from on another machine; what
    comes back from ``run`` is always the JSON round trip of what the function returned.
    """

    name: str
    function: Callable[..., R]
    effect: Effect = Effect.REPEATABLE
    carry: bool = True
    many: bool = False
    boundary: str = ""
    remembers: timedelta | None = None
    reconcile: Callable[..., Observed] | None = None

    def at(self, index: int | str) -> Step[P, R]:
        """The step of one turn of a loop, stored as ``name:index``. Needs ``many=True``.

        Raises ValueError for an index that is empty, unprintable, or makes the name too long.
        """
        if not self.many:
            raise TypeError(f"step {self.name!r} is not declared with many=True")
        turn, name = str(index), f"{self.name}:{index}"
        if not turn or not turn.isprintable() or len(name) > STORED_NAME_LIMIT:
            raise ValueError(f"step {self.name!r} cannot have a turn called {turn[:60]!r}")
        return replace(self, name=name, many=False)

    @property
    def begins(self) -> bool:
        """Whether an intent is committed before the function runs."""
        return self.effect in (Effect.KEYED, Effect.ONCE)


class _StepFactory:
    def __call__(
        self, name: str, *, carry: bool = True, many: bool = False
    ) -> Callable[[Callable[P, R]], Step[P, R]]:
        """A repeatable step: a crash before its output is stored makes it run again."""

        def made(function: Callable[P, R]) -> Step[P, R]:
            return Step(name, function, Effect.REPEATABLE, carry, many)

        return made

    def local(
        self, name: str, *, carry: bool = True, many: bool = False
    ) -> Callable[[Callable[P, R]], Step[P, R]]:
        """A step that changes only our database: exactly once. No network inside."""

        def made(function: Callable[P, R]) -> Step[P, R]:
            return Step(name, function, Effect.LOCAL, carry, many)

        return made

    @overload
    def keyed(
        self,
        name: str,
        *,
        remembers: timedelta,
        boundary: Boundary = "provider",
        carry: bool = True,
        many: bool = False,
    ) -> Callable[[Callable[Concatenate[str, P], R]], Step[P, R]]: ...

    @overload
    def keyed(
        self,
        name: str,
        *,
        remembers: timedelta,
        reconcile: Callable[Concatenate[Intent, P], Observed],
        boundary: Boundary = "provider",
        carry: bool = True,
        many: bool = False,
    ) -> Callable[[Callable[Concatenate[str, P], R]], Step[P, R]]: ...

    def keyed(
        self,
        name: str,
        *,
        remembers: timedelta,
        reconcile: Any = None,
        boundary: Boundary = "provider",
        carry: bool = True,
        many: bool = False,
    ) -> Any:
        """A step whose provider takes our key; the function gets the key first.

        Sent again with the same key after any failure, for as long as the provider
        ``remembers`` it; after that it is treated as ``once``.
        """

        def made(function: Callable[..., Any]) -> Step[..., Any]:
            return Step(name, function, Effect.KEYED, carry, many, boundary, remembers, reconcile)

        return made

    @overload
    def once(
        self, name: str, *, boundary: Boundary = "provider", carry: bool = True, many: bool = False
    ) -> Callable[[Callable[P, R]], Step[P, R]]: ...

    @overload
    def once(
        self,
        name: str,
        *,
        reconcile: Callable[Concatenate[Intent, P], Observed],
        boundary: Boundary = "provider",
        carry: bool = True,
        many: bool = False,
    ) -> Callable[[Callable[P, R]], Step[P, R]]: ...

    def once(
        self,
        name: str,
        *,
        reconcile: Any = None,
        boundary: Boundary = "provider",
        carry: bool = True,
        many: bool = False,
    ) -> Any:
        """A step that nobody deduplicates. Its intent is committed before the function runs.

        After a crash in between, ``reconcile`` is asked what happened, with the step's own
        arguments; without one the job ends uncertain and is never retried blindly.
        """

        def made(function: Callable[..., Any]) -> Step[..., Any]:
            return Step(name, function, Effect.ONCE, carry, many, boundary, None, reconcile)

        return made


step = _StepFactory()
