"""Did the state move?"""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioning.terraform.errors import StateUnreadable
from provisioning.terraform.state import Movement, StateMark, mark_of, movement, read_file

NONE = StateMark()
OLD, NEW = StateMark(3, "L"), StateMark(4, "L")


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (NONE, NONE, Movement.SAME),
        (OLD, OLD, Movement.SAME),
        (NONE, OLD, Movement.MOVED),
        (OLD, NEW, Movement.MOVED),
        (NEW, OLD, Movement.BEHIND),
        (OLD, NONE, Movement.BEHIND),
        (OLD, StateMark(9, "M"), Movement.OTHER),
        (OLD, StateMark(3, "M"), Movement.OTHER),
    ],
)
def test_a_state_is_compared_by_serial_and_lineage(
    before: StateMark, now: StateMark, expected: Movement
) -> None:
    assert movement(before, now) is expected


def test_no_file_and_empty_text_mean_that_there_is_no_state(tmp_path: Path) -> None:
    assert read_file(tmp_path / "none.tfstate") == NONE
    assert mark_of(b"\n") == NONE


def test_a_mark_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "terraform.tfstate"
    file.write_text('{"version": 4, "serial": 3, "lineage": "L"}')

    assert read_file(file) == OLD


@pytest.mark.parametrize("content", [b"not json", b"[]", b"{}", b'{"serial": "x", "lineage": "L"}'])
def test_what_is_no_state_is_said_to_be_none_of_ours(content: bytes) -> None:
    with pytest.raises(StateUnreadable) as unreadable:
        mark_of(content)
    assert unreadable.value.code == "state_unreadable"


def test_a_state_that_cannot_be_opened_is_unreadable_not_absent(tmp_path: Path) -> None:
    with pytest.raises(StateUnreadable):
        read_file(tmp_path)
