"""A workspace and a ledger for each test of the kernel, and kinds that are gone after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import events, registry
from tests.integration.kernel.scene import new_workspace
from workspaces.models import Workspace


@pytest.fixture
def workspace(transactional_db: None) -> Workspace:
    return new_workspace()


@pytest.fixture
def acme(transactional_db: None) -> Workspace:
    return Workspace.objects.create(slug="acme", name="Acme")


@pytest.fixture
def shop(db: None) -> Workspace:
    """A workspace in a transaction that is rolled back: for statements sent one at a time."""
    return Workspace.objects.create(slug="shop", name="Shop")


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


@pytest.fixture(autouse=True)
def _registrations_end() -> Iterator[None]:
    """Kinds and receivers that a test registers are gone after it."""
    kinds, receivers = dict(registry.KINDS), list(events._receivers)
    yield
    registry.KINDS.clear()
    registry.KINDS.update(kinds)
    events._receivers[:] = receivers
