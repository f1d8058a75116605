"""How a worker's children learn that it stops."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from jobs import shutdown


@pytest.fixture(autouse=True)
def handlers() -> Iterator[list[int]]:
    """The stop signals, handled as a worker does: each is only counted here."""
    heard: list[int] = []

    def handler(number: int, _frame: FrameType | None) -> None:
        heard.append(number)

    before = {number: signal.getsignal(number) for number in shutdown._SIGNALS}
    for number in before:
        signal.signal(number, handler)
    yield heard
    for number, earlier in before.items():
        signal.signal(number, earlier)
    shutdown.forget()


@pytest.mark.parametrize("number", shutdown._SIGNALS)
def test_a_stop_signal_is_known_and_does_what_it_did_before(
    handlers: list[int], number: signal.Signals
) -> None:
    shutdown.watch_signals()
    assert not shutdown.asked()
    signal.raise_signal(number)
    assert (shutdown.asked(), handlers) == (True, [number])


def test_watching_twice_handles_a_signal_once(handlers: list[int]) -> None:
    shutdown.watch_signals()
    shutdown.watch_signals()
    signal.raise_signal(signal.SIGTERM)
    assert handlers == [signal.SIGTERM]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    shutdown.watch_signals()
    signal.raise_signal(signal.SIGQUIT)
    assert not shutdown.asked()


def test_a_child_sees_what_its_parent_was_told() -> None:
    """The flag is memory shared before the fork, so a child needs no signal of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(shutdown.asked())
    shutdown.ask()
    os.write(writing, b"x")
    os.close(reading)
    os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_new_worker_forgets_the_stop_of_the_one_before() -> None:
    shutdown.ask()
    shutdown.forget()
    assert not shutdown.asked_soon(0)
