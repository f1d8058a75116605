"""Two tenants, for whoever asks for them."""

from __future__ import annotations

import pytest

from workspaces.models import Workspace


@pytest.fixture
def acme() -> Workspace:
    return Workspace.objects.create(slug="acme", name="Acme")


@pytest.fixture
def globex() -> Workspace:
    return Workspace.objects.create(slug="globex", name="Globex")
