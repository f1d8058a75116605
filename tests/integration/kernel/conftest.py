"""A workspace and a ledger for each test of the kernel."""

from pathlib import Path

import pytest

from tests.integration.kernel.scene import new_workspace
from workspaces.models import Workspace


@pytest.fixture
def workspace(transactional_db: None) -> Workspace:
    return new_workspace()


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")
