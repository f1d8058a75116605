"""A workspace, a receiver of its webhooks, and leave to reach this machine."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

import pytest
from pytest_django import Settings

from jobs import publish
from tests.integration.api.conftest import caller, no_earlier_failures
from tests.support.receiver import Receiver, receiver
from webhooks import wanted
from workspaces.models import Workspace

__all__ = ["caller", "no_earlier_failures"]


@pytest.fixture
def acme(transactional_db: None) -> Workspace:
    return Workspace.objects.create(slug="acme", name="Acme")


@pytest.fixture(autouse=True)
def reachable(settings: Settings) -> None:
    settings.WEBHOOK_ALLOW_HTTP = True
    settings.WEBHOOK_ALLOW_NETWORKS = [ip_network("127.0.0.0/8")]


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    """What this process knows of subscriptions is of an earlier test."""
    wanted._Known.workspaces = frozenset()
    wanted.forget()
    yield
    wanted._Known.workspaces = frozenset()
    wanted.forget()


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as one:
        yield one


@pytest.fixture(autouse=True)
def nothing_runs_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inline, a commit would run what it enqueued before the test can look at it."""
    monkeypatch.setattr(publish._Drains, "serving", True)
