"""A real Chromium before the real console, with everything it complains about kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="browser tests need requirements-e2e.txt")

from django.contrib.auth.models import User
from playwright.sync_api import Browser, ConsoleMessage, Page
from pytest_django import Settings

from config.console.door import open_door
from examples.payments.control import ProviderControl
from examples.payments.provider import running
from tests.integration.console_scene import PASSWORD
from workspaces.models import Workspace
from workspaces.permissions import Role

# Playwright runs its loop in the test's thread; what the tests ask of the database is not async.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")

DESKTOP, PHONE = 1280, 390
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """The system's Chromium, which asks nobody for anything."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("no Chromium on PATH; set CHROMIUM")
    return {"executable_path": path, "args": list(FLAGS)}


@dataclass
class Screen:
    """One page in a browser of its own, and what went wrong on it."""

    page: Page
    home: str
    shots: Path
    faults: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        self.page.goto(self.home + path)

    def log_in(self, name: str = "ana") -> None:
        self.open("/admin/")
        self.page.get_by_label("Username").fill(name)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("heading", name="Overview").wait_for()

    def shoot(self, name: str) -> None:
        """Keep a picture, and see that nothing sticks out sideways."""
        self.page.screenshot(path=self.shots / f"{name}.png", full_page=True)
        wide, seen = self.page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert wide <= seen, f"{name} is {wide} px wide in a window of {seen} px"


def _keep_faults(screen: Screen) -> None:
    """Page errors, and the console's errors: a broken policy is one of them."""

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            screen.faults.append(f"{message.location.get('url')}: {message.text}")

    screen.page.on("console", heard)
    screen.page.on("pageerror", lambda error: screen.faults.append(str(error)))
    screen.page.on("requestfailed", lambda request: screen.faults.append(request.url))


@pytest.fixture
def screen_of(
    browser: Browser, live_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Screen]]:
    """Makes screens of a width, with or without scripts; at the end none may have a fault."""
    shots = Path(os.environ.get("FIREDOOR_SHOTS") or tmp_path_factory.mktemp("shots"))
    made: list[Screen] = []

    def make(width: int = DESKTOP, **options: Any) -> Screen:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        screen = Screen(context.new_page(), live_server.url, shots)
        _keep_faults(screen)
        made.append(screen)
        return screen

    yield make
    faults = [fault for screen in made for fault in screen.faults]
    for screen in made:
        screen.page.context.close()
    assert faults == []


@pytest.fixture
def shop(transactional_db: None) -> Workspace:
    return Workspace.objects.create(slug="shop", name="Shop")


@pytest.fixture
def ana(shop: Workspace) -> User:
    user = User.objects.create_user("ana", password=PASSWORD, first_name="Ana", last_name="Ibarra")
    open_door(user, role=Role.LEAD, workspace=shop)
    return user


@pytest.fixture
def provider(tmp_path: Path, settings: Settings) -> Iterator[ProviderControl]:
    with running(tmp_path / "ledger.jsonl") as provider:
        settings.PAYMENTS_URL = provider.url
        yield ProviderControl(provider.url)
