"""Every drill of the research has its line in docs/drills.md, and the tests that it names exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RANGES = ((1, 14), (20, 29), (30, 39), (40, 46), (50, 56), (60, 63))
NUMBERS = [f"F-{n:02}" for first, last in RANGES for n in range(first, last + 1)]
_START, *ENTRIES = re.split(r"^- \*\*(?=F-)", (ROOT / "docs/drills.md").read_text(), flags=re.M)
DRILLS = {entry[:4]: re.findall(r"`([\w/]+)::(\w+)`", entry) for entry in ENTRIES}


@cache
def written_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / f"{file}.py").read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_drill_has_one_line_and_in_order() -> None:
    assert [entry[:4] for entry in ENTRIES] == NUMBERS


@pytest.mark.parametrize("drill", NUMBERS)
def test_the_tests_of_a_drill_are_there(drill: str) -> None:
    assert DRILLS[drill]
    assert {test for file, test in DRILLS[drill] if test not in written_in(file)} == set()
