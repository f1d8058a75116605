"""The one thread that ``make serve`` sweeps and works in."""

from __future__ import annotations

import threading

import pytest

from config import serving


@pytest.mark.parametrize("fault", [SystemExit(3), RuntimeError("the database is away")], ids=repr)
def test_no_handler_and_no_outage_ends_it(
    fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, second, stop = [], threading.Event(), threading.Event()

    def sweep() -> None:
        passes.append(threading.current_thread())
        if stop.is_set():
            raise KeyboardInterrupt
        if len(passes) == 1:
            raise fault
        second.set()

    monkeypatch.setattr(serving, "sweep", sweep)
    monkeypatch.setattr(serving, "work_in_this_thread", lambda: None)
    monkeypatch.setattr(serving, "PASS_SECONDS", 0.01)
    monkeypatch.setattr(threading, "excepthook", lambda _args: None)
    thread = serving.start_upkeep()
    assert second.wait(10), "the thread has ended"
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
