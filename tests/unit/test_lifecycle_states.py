"""The table of moves is closed: every state can be left or is an end, and none is unreachable."""

from __future__ import annotations

from provisioning.lifecycle.states import MOVES, State


def test_every_state_but_the_first_is_reached_by_a_move() -> None:
    assert {move.target for move in MOVES} == set(State) - {State.REQUESTED}


def test_only_a_failed_workspace_is_retried_and_only_a_provisioning_one_gets_ready() -> None:
    ways = {(move.source, move.target) for move in MOVES}

    assert {source for source, target in ways if target is State.READY} == {State.PROVISIONING}
    assert {source for source, target in ways if target is State.PROVISIONING} == {
        State.REQUESTED,
        State.PROVISION_FAILED,
    }
    assert not {source for source, _ in ways} & {State.READY}
