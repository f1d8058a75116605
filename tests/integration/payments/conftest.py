"""A running provider that the settings point at, and a workspace to charge in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from examples.payments.control import ProviderControl
from examples.payments.provider import Provider, running
from workspaces.models import Workspace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The provider's ledger."""
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def provider(path: Path, settings: Settings) -> Iterator[Provider]:
    with running(path) as provider:
        settings.PAYMENTS_URL = provider.url
        yield provider


@pytest.fixture
def control(provider: Provider) -> ProviderControl:
    return ProviderControl(provider.url)


@pytest.fixture
def workspace(transactional_db: None) -> Workspace:
    return Workspace.objects.create(slug="shop", name="Shop")
