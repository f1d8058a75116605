"""What a question is answered with: how bad it is, in a sentence, and about which rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """``warn``: look at it today. ``fail``: jobs stand still, or a guarantee does not hold."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Answer:
    """``rows`` names some of what it is about: job ids, names; the command is about the first.

    ``command`` helps better than the question's own, where that depends.
    """

    level: Level
    sentence: str
    rows: tuple[str, ...] = ()
    command: str = ""


def ok(sentence: str) -> Answer:
    return Answer(Level.OK, sentence)


def warn(sentence: str, rows: Iterable[object] = ()) -> Answer:
    return Answer(Level.WARN, sentence, tuple(map(str, rows)))


def fail(sentence: str, rows: Iterable[object] = ()) -> Answer:
    return Answer(Level.FAIL, sentence, tuple(map(str, rows)))


def worst(levels: Iterable[Level]) -> Level:
    """The worst of them; ``ok`` of none."""
    return max(levels, key=list(Level).index, default=Level.OK)
