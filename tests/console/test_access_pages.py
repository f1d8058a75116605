"""A program is let in, and shut out again, from the console alone; also from a phone."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx2
import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from playwright.sync_api import Error, expect

from config.console.door import open_door
from jobs.models import Upkeep
from jobs.sweep import UPKEEP
from tests.console.conftest import DESKTOP, PHONE, Screen
from workspaces.models import Workspace
from workspaces.permissions import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("admin")]

Screens = Callable[..., Screen]


@pytest.fixture
def admin(ana: User, shop: Workspace) -> User:
    Upkeep.objects.create(name=UPKEEP, passed_at=Now(), by="a test")
    open_door(ana, role=Role.ADMIN, workspace=shop)
    return ana


def calls(screen: Screen, token: str) -> int:
    """The status of a call that a program makes with the token."""
    url = f"{screen.home}/api/v1/workspaces/shop/jobs/"
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.get(url, headers=headers, trust_env=False).status_code


def token_on(screen: Screen) -> str:
    found = screen.page.get_by_label("Token", exact=True).inner_text().strip()
    assert re.fullmatch(r"fdr_\w{49}", found)
    return found


def issued(screen: Screen, name: str) -> str:
    """The token of a new account."""
    page = screen.page
    page.get_by_role("link", name="Accounts", exact=True).click()
    screen.shoot(f"{name}-1-accounts")
    page.get_by_role("link", name="Create account…").click()
    page.get_by_label("Name").fill("ci")
    page.locator("#id_workspace").fill("shop")
    screen.shoot(f"{name}-2-create")
    page.get_by_role("button", name="Create the account").click()
    page.get_by_role("link", name="Issue token…").click()
    screen.shoot(f"{name}-3-issue")
    page.get_by_role("button", name="Issue the token").click()
    screen.shoot(f"{name}-4-token")
    return token_on(screen)


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_a_program_gets_a_token_and_loses_it(screen_of: Screens, width: int) -> None:
    screen = screen_of(width, java_script_enabled=False)
    name, page = f"access-{width}", screen.page
    screen.log_in()
    token = issued(screen, name)
    assert calls(screen, token) == 200

    page.get_by_role("link", name="To the account").click()
    assert token not in page.content()
    page.get_by_role("link", name="Rotate…").click()
    screen.shoot(f"{name}-5-rotate")
    page.get_by_role("button", name="Issue its successor").click()
    successor = token_on(screen)
    page.get_by_role("link", name="To the account").click()
    screen.shoot(f"{name}-6-account")
    page.get_by_role("link", name="Revoke…").last.click()
    page.get_by_label("Reason (required)").fill("it was in a public repository")
    screen.shoot(f"{name}-7-revoke")
    page.get_by_role("button", name="Revoke it now").click()
    expect(page.get_by_text("Revoked: ")).to_be_visible()
    assert (calls(screen, token), calls(screen, successor)) == (401, 200)


def test_a_token_cannot_be_had_back(screen_of: Screens) -> None:
    """Neither by going back, nor by sending the form again."""
    screen = screen_of()
    screen.log_in()
    token = issued(screen, "again")
    screen.page.get_by_role("link", name="To the account").click()
    with pytest.raises(Error, match="ERR_CACHE_MISS"):
        screen.page.go_back()
    screen.page.wait_for_url("chrome-error://**")  # its own page about that is on its way
    assert token not in screen.page.content()
    screen.faults.clear()  # the browser says that it has not kept the page
