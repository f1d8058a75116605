"""When a stop rule speaks, and what a filter says. Pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import OperationInvalid
from jobs.recovery.item_verbs import criteria_in
from jobs.recovery.watch import ENOUGH, judged

WELL, BADLY = True, False


@pytest.mark.parametrize(
    ("newest_first", "stop_after", "streak"),
    [
        ([BADLY] * 3, 3, 3),
        ([BADLY] * 5 + [WELL], 3, 5),
        ([BADLY], 1, 1),
    ],
)
def test_so_many_bad_endings_in_a_row_pause(
    newest_first: list[bool], stop_after: int, streak: int
) -> None:
    why = judged(newest_first, stop_after, 1.0)
    assert why == f"the last {streak} whose fate is known ended badly"


@pytest.mark.parametrize(
    "newest_first",
    [[], [WELL], [BADLY, BADLY, WELL, BADLY], [WELL, BADLY, BADLY, BADLY]],
)
def test_fewer_in_a_row_or_a_row_that_is_over_do_not(newest_first: list[bool]) -> None:
    assert judged(newest_first, 3, 1.0) == ""


def test_a_share_of_the_recent_ones_pauses_once_there_are_enough() -> None:
    two_of_ten = [WELL] * 4 + [BADLY] + [WELL] * 4 + [BADLY]
    assert len(two_of_ten) == ENOUGH
    assert judged(two_of_ten, 9, 0.2) == "2 of the last 10 whose fate is known ended badly"
    assert judged(two_of_ten, 9, 0.21) == ""
    assert judged(two_of_ten[1:], 9, 0.2) == ""


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 10), st.floats(0.01, 1.0))
def test_another_good_ending_never_makes_it_pause(
    fates: list[bool], stop_after: int, stop_ratio: float
) -> None:
    if len(fates) >= ENOUGH and not judged(fates, stop_after, stop_ratio):
        assert judged([WELL, *fates], stop_after, stop_ratio) == ""


def test_a_filter_is_names_and_values() -> None:
    assert criteria_in("state=dead, kind = a.b ,cause=lost,") == {
        "state": "dead",
        "kind": "a.b",
        "cause": "lost",
    }
    assert criteria_in("prefix=a=b") == {"prefix": "a=b"}


@pytest.mark.parametrize("text", ["", " , ", "dead", "=dead", "state=", "a=1,a=2"])
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(OperationInvalid, match="Nothing was selected"):
        criteria_in(text)
