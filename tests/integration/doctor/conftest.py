"""What the doctor's tests share."""

import pytest

from workspaces.models import Workspace


@pytest.fixture
def acme() -> Workspace:
    return Workspace.objects.create(slug="acme", name="Acme")
