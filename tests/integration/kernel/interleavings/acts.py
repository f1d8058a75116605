"""What a scene's people may do: a registry, so that the machine can choose among what is possible.

One rule chooses, by weight, among the acts that can be done now. Rules of their own would each be
as likely as any other, and most moves would be wasted on what cannot be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.integration.kernel.interleavings.scene import Scene


@dataclass(frozen=True)
class Act:
    """``always``: part of every scene; others are part of some."""

    name: str
    weight: int
    always: bool
    possible: Callable[[Any], Any]


def act(
    possible: Callable[[Any], Any] = lambda _scene: True, *, weight: int = 2, always: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark a method as something that may be done when ``possible`` says so."""

    def marked(method: Callable[..., None]) -> Callable[..., None]:
        method.act = Act(method.__name__, weight, always, possible)  # type: ignore[attr-defined]
        return method

    return marked


class Cast:
    """Those who act in a scene, with the chooser's ``data``."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.data: DataObject

    def acts(self) -> Iterator[Act]:
        for name in sorted(dir(type(self))):
            found = getattr(getattr(type(self), name), "act", None)
            if found is not None:
                yield found

    def chosen(self, strategy: st.SearchStrategy[Any], label: str) -> Any:
        return self.data.draw(strategy, label)

    def one_of(self, some: list[Any], label: str) -> Any:
        return self.data.draw(st.sampled_from(some), label)
