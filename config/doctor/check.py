"""The list of questions. A function becomes one by ``@check``; its docstring is its page."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from config.doctor.answer import Answer
from config.doctor.sight import Sight

Ask = Callable[[Sight], Answer | None]


@dataclass(frozen=True)
class Check:
    """One question. ``ask`` answers None where the question makes no sense, as in inline mode.

    It is asked only if what it ``needs`` was asked and did not fail. In ``command``, ``ROW``
    stands for the first row of the answer.
    """

    code: str
    needs: str
    command: str
    ask: Ask

    @property
    def question(self) -> str:
        return inspect.getdoc(self.ask).partition("\n")[0]  # type: ignore[union-attr]

    @property
    def meaning(self) -> str:
        return inspect.getdoc(self.ask).partition("\n")[2].strip()  # type: ignore[union-attr]


CHECKS: dict[str, Check] = {}


def check(code: str, *, command: str, needs: str = "") -> Callable[[Ask], Ask]:
    """Put a function on the list: its first line asks, the rest says what it means and to do."""

    def listed(ask: Ask) -> Ask:
        CHECKS[code] = Check(code, needs, command, ask)
        return ask

    return listed
