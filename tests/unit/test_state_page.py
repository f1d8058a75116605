"""The page about states is the table in the code."""

from pathlib import Path

from jobs import states

PAGE = Path(__file__).parents[2] / "docs" / "state-machine.md"


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text() == states.page() + "\n", (
        "run: python -m jobs.states > docs/state-machine.md"
    )


def test_nothing_leaves_a_final_state() -> None:
    assert all(not states.TRANSITIONS[state] for state in states.FINAL)


def test_every_state_can_be_reached() -> None:
    reached = {move.target for move in states.MOVES} | {states.State.QUEUED}
    assert reached == set(states.State)
