"""Every case of the contract of webhooks is claimed by a test that names it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
RANGES = ((1, 9), (10, 33), (40, 50), (60, 69), (80, 90))
NUMBERS = [n for first, last in RANGES for n in range(first, last + 1)]


@cache
def claimed() -> frozenset[int]:
    """The numbers in the docstrings of tests; "B4" and "B5" are parts of W-80 and W-01."""
    found: set[int] = set()
    for file in TESTS.rglob("test_*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found |= {int(n) for n in re.findall(r"W-(\d\d)", ast.get_docstring(node) or "")}
    return frozenset(found)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_case_has_its_test(number: int) -> None:
    assert number in claimed()


def test_no_test_claims_what_is_no_case() -> None:
    assert claimed() <= set(NUMBERS)
