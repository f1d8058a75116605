"""What every test may use."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# No time decides whether a test passes, and the same inputs come in every run.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

pytest_plugins = ["tests.emptying"]

# A shell lets what it starts in the background ignore these, and every child inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under ``FIREDOOR_TEST_DB=sqlite`` run the tests marked ``sqlite`` and no others."""
    if os.environ.get("FIREDOOR_TEST_DB") != "sqlite":
        return
    chosen = [item for item in items if item.get_closest_marker("sqlite")]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


@pytest.fixture(autouse=True)
def _no_server_of_an_earlier_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The web application, once a live server has loaded it, lets no thread run jobs inline."""
    from jobs import publish

    monkeypatch.setattr(publish._Drains, "serving", False)
