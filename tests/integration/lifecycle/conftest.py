"""A real tool, a running registry that the settings point at, and a workspace to provision."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from examples.registry.control import RegistryControl
from examples.registry.server import running
from tests.support.terraform import real_tool
from workspaces.models import Workspace


@pytest.fixture
def root(tmp_path: Path, settings: Settings) -> Path:
    """Where this test's states, folders and effects are."""
    real_tool()
    settings.FIREDOOR_PROVISIONING = tmp_path / "provisioning"
    return tmp_path / "provisioning"


@pytest.fixture
def control(tmp_path: Path, settings: Settings) -> Iterator[RegistryControl]:
    with running(tmp_path / "registry.jsonl") as registry:
        settings.FIREDOOR_REGISTRY_URL = registry.url
        yield RegistryControl(registry.url)


@pytest.fixture
def workspace(transactional_db: None, root: Path, control: RegistryControl) -> Workspace:
    return Workspace.objects.create(slug="acme", name="Acme")
