"""What every test may use."""

import os

import pytest

pytest_plugins = ["tests.emptying"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under ``FIREDOOR_TEST_DB=sqlite`` run the tests marked ``sqlite`` and no others."""
    if os.environ.get("FIREDOOR_TEST_DB") != "sqlite":
        return
    chosen = [item for item in items if item.get_closest_marker("sqlite")]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
