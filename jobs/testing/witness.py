"""Who watches the functions of a run's steps: how often each was called, with which key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.effects import Call
from jobs.states import Effect
from jobs.steps import Step
from jobs.testing.points import Perform, performing


@dataclass
class Witness:
    """By stored step name: calls of its function, the keys it got, what it returned last."""

    calls: dict[str, int] = field(default_factory=dict)
    keys: dict[str, set[str]] = field(default_factory=dict)
    outputs: dict[str, object] = field(default_factory=dict)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note every step that a run in this block calls."""

        def around(original: Perform) -> Perform:
            def perform(call: Call) -> object:
                watched = replace(call.step, function=self._watched(call.step))
                return original(replace(call, step=watched))

            return perform

        with performing(around):
            yield

    def _watched(self, step: Step[..., Any]) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            self.calls[step.name] = self.calls.get(step.name, 0) + 1
            if step.effect is Effect.KEYED:
                self.keys.setdefault(step.name, set()).add(args[0])
            self.outputs[step.name] = output = step.function(*args, **kwargs)
            return output

        return function
