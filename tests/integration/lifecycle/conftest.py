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
    """The test's own FIREDOOR_VAR: its states, folders, plans and effects."""
    real_tool()
    settings.FIREDOOR_EXAMPLES = tmp_path
    settings.FIREDOOR_PROVISIONING = tmp_path / "provisioning"
    settings.MEDIA_ROOT = tmp_path / "media"
    return tmp_path


@pytest.fixture
def control(tmp_path: Path, settings: Settings) -> Iterator[RegistryControl]:
    with running(tmp_path / "registry.jsonl") as registry:
        settings.FIREDOOR_REGISTRY_URL = registry.url
        yield RegistryControl(registry.url)


@pytest.fixture
def workspace(transactional_db: None, root: Path, control: RegistryControl) -> Workspace:
    return Workspace.objects.create(slug="acme", name="Acme")


@pytest.fixture
def module(root: Path, settings: Settings) -> Path:
    """Two resources, of which the second fails while the file `broken` exists."""
    folder = root / "module"
    folder.mkdir()
    (folder / "main.tf").write_text(TWO_RESOURCES)
    settings.FIREDOOR_MODULE = folder
    return folder


TWO_RESOURCES = """
variable "workspace" { type = string }
variable "effects" { type = string }

resource "terraform_data" "network" {
  provisioner "local-exec" {
    command = "echo ${var.workspace} network created >> ${var.effects}"
  }
}

resource "terraform_data" "database" {
  input = terraform_data.network.id
  provisioner "local-exec" {
    command = "test ! -e broken && echo ${var.workspace} database created >> ${var.effects}"
    working_dir = dirname(dirname(var.effects))
  }
}

output "network_id" { value = terraform_data.network.id }
"""
