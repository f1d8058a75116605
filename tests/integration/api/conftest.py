"""A workspace, a service account of each role, and a client that speaks for one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client

from tests.integration.api.probe import Probe
from workspaces import service_accounts, tokens
from workspaces.actors import SYSTEM
from workspaces.http.authentication import counter_of
from workspaces.models import Workspace
from workspaces.permissions import Role

# The statement that finds token, account and workspace; on PostgreSQL it goes past Django's cursor,
# which alone is counted.
WHO_AND_WHERE = 0 if connection.vendor == "postgresql" else 1


class Caller:
    """A client with a token. Paths are below the workspace; every answer is Django's own."""

    def __init__(self, workspace: Workspace, role: Role, name: str = "") -> None:
        self.workspace = workspace
        self.account = service_accounts.create(
            name or f"{role}-of-{workspace.slug}", role=role, workspace=workspace, actor=SYSTEM
        )
        self.account_id = f"service:{self.account.pk}"
        self.token, self.secret = tokens.issue(self.account, actor=SYSTEM)
        self.client = Client(raise_request_exception=False)

    def url(self, path: str) -> str:
        return path if path.startswith("/") else f"/api/v1/workspaces/{self.workspace.slug}/{path}"

    def get(self, path: str, query: Any = None, **headers: str) -> Any:
        return self.client.get(self.url(path), query, headers=self._with(headers))

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.post(
            self.url(path),
            body if isinstance(body, bytes | str) else body or {},
            content_type=headers.pop("content_type", "application/json"),
            headers=self._with(headers),
        )

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Any method at all; ``content_type`` says what the body is."""
        return self.client.generic(
            method,
            self.url(path),
            body if isinstance(body, bytes | str) else json.dumps(body or {}),
            content_type=headers.pop("content_type", "application/json"),
            headers=self._with(headers),
        )

    def _with(self, headers: dict[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return {"Authorization": f"Bearer {self.secret}", **named}


def problem(response: Any) -> dict[str, Any]:
    """The body of a refusal, which every refusal has in the same form."""
    assert response["Content-Type"] == "application/problem+json"
    assert response["Cache-Control"] == "no-store"
    told: dict[str, Any] = json.loads(response.content)
    assert told["status"] == response.status_code
    assert told["retry"] in ("same_key", "new_key", "none")
    assert told["type"].endswith(f"/api/problems/#{told['code']}")
    assert response["X-Request-ID"]
    return told


@pytest.fixture
def probe(settings: Any) -> Iterator[type[Probe]]:
    """The resource `probe/`, which does what the test tells it."""
    settings.ROOT_URLCONF = "tests.integration.api.probe"
    Probe.does(lambda _view: None)
    Probe.calls.clear()
    yield Probe
    Probe.does(lambda _view: None)


@pytest.fixture(autouse=True)
def no_earlier_failures() -> None:
    """Forget the bad tokens of earlier tests: the cache outlives them."""
    cache.delete(counter_of("127.0.0.1"))


@pytest.fixture
def acme(transactional_db: None) -> Workspace:
    return Workspace.objects.create(slug="acme", name="Acme")


@pytest.fixture
def rival(transactional_db: None) -> Workspace:
    return Workspace.objects.create(slug="rival", name="Rival")


@pytest.fixture
def caller(acme: Workspace) -> Callable[..., Caller]:
    """Make a caller of a role, by default in acme."""
    return lambda role=Role.OPERATOR, workspace=None, name="": Caller(
        workspace or acme, Role(role), name
    )
