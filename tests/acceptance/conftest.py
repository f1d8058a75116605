"""One stack for all acceptance tests; each test gets its own workspace and ledger."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from tests.acceptance.stack import Stack, client_of, running_stack
from workspaces.models import Workspace


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give time for starting the stack, which falls to whichever test comes first."""
    for item in items:
        if "stack" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="package")
def whole_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Started once: that takes longer than most of the tests."""
    with running_stack(tmp_path_factory.mktemp("stack")) as stack:
        yield stack


@pytest.fixture
def stack(whole_stack: Stack, django_db_blocker: DjangoDbBlocker) -> Iterator[Stack]:
    """The stack, whole again, with this process as its client."""
    whole_stack.restore()
    with django_db_blocker.unblock(), client_of(whole_stack):
        yield whole_stack
    sys.stdout.write(whole_stack.tail())  # shown for a test that failed


@pytest.fixture
def workspace(stack: Stack) -> Workspace:
    name = uuid.uuid4().hex
    return Workspace.objects.create(slug=name, name=name)


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """Where the drills' kinds count what they do."""
    return str(tmp_path / "ledger")
