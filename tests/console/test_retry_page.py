"""The operator's story, clicked through: a dead letter is found, understood, retried and done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db.models.functions import Now
from playwright.sync_api import Page, expect

from examples.payments.control import ProviderControl
from examples.payments.kinds import charge
from jobs.models import Job, Upkeep
from jobs.sweep import UPKEEP
from tests.console.conftest import DESKTOP, PHONE, Screen
from tests.drills.kinds import secretive
from tests.integration.console_scene import CANARY, dead, ended, finished, page, uncertain
from workspaces.models import AuditEvent, Workspace

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("ana")]

Screens = Callable[..., Screen]
REASON = "The receipt service is back since 14:20 (INC-42)."


@pytest.fixture
def job(shop: Workspace, provider: ProviderControl) -> Job:
    """Paid and booked, but the receipt could not be sent: its retries are used up."""
    provider.down("POST /receipts")
    return ended(charge.s(order_id="o-42", cents=4200), shop, "order-42")


def _story(screen: Screen, job: Job, provider: ProviderControl, name: str) -> None:
    """From the log-in to the new job's page."""
    page = screen.page
    Upkeep.objects.create(name=UPKEEP, passed_at=Now(), by="a test")
    screen.log_in()
    screen.shoot(f"{name}-1-overview")
    page.get_by_role("link", name="Dead letters").first.click()
    screen.shoot(f"{name}-2-dead-letters")
    page.get_by_role("link", name="payments.charge order-42").click()
    expect(page.get_by_text("its retries are used up")).to_be_visible()
    screen.shoot(f"{name}-3-job")
    page.get_by_role("link", name="Retry from failed step…").click()
    _refuse_an_empty_reason(screen, name)
    provider.script("POST /receipts")
    page.get_by_label("Reason").fill(REASON)
    page.get_by_role("button", name="Retry from 'receipt'").click()
    _receipt(screen, name)
    successor = finished(Job.objects.get(retry_of=job))
    assert successor.state == "succeeded"
    page.get_by_role("link", name="Open the new job").click()
    expect(page.get_by_text("It succeeded in attempt 1.")).to_be_visible()
    expect(page.get_by_text("kept from job").first).to_be_visible()
    screen.shoot(f"{name}-7-new-job")


def _refuse_an_empty_reason(screen: Screen, name: str) -> None:
    page = screen.page
    expect(page.get_by_role("row", name="charge").get_by_text("kept")).to_be_visible()
    screen.shoot(f"{name}-4-confirm")
    page.get_by_role("button", name="Retry from 'receipt'").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was done: say why")
    screen.shoot(f"{name}-5-refused")
    assert Job.objects.filter(retry_of__isnull=False).count() == 0
    _forgive_the_refusal(screen)


def _forgive_the_refusal(screen: Screen) -> None:
    """Chromium reports every answer of 400 and above; that one was asked for."""
    told = [fault for fault in screen.faults if "status of 422" in fault]
    assert len(told) == 1
    screen.faults.remove(told[0])


def _receipt(screen: Screen, name: str) -> None:
    page = screen.page
    expect(page.get_by_role("heading", level=1)).to_have_text("Queued a retry from the failed step")
    expect(page.get_by_text("Kept, and not run again: reserve, charge, book.")).to_be_visible()
    expect(page.get_by_text(REASON)).to_be_visible()
    screen.shoot(f"{name}-6-receipt")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_a_dead_letter_is_retried_by_hand_and_nothing_happens_twice(
    screen_of: Screens, job: Job, provider: ProviderControl, width: int
) -> None:
    before = provider.effects()
    _story(screen_of(width), job, provider, f"story-{width}")
    after = provider.effects()
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {
        "receipt": 1
    }


def test_all_of_it_works_without_javascript(
    screen_of: Screens, job: Job, provider: ProviderControl
) -> None:
    _story(screen_of(PHONE, java_script_enabled=False), job, provider, "no-js")


def test_the_back_button_and_a_second_click_make_no_second_retry(
    screen_of: Screens, job: Job, provider: ProviderControl
) -> None:
    screen = screen_of()
    screen.log_in()
    screen.open(page(job))
    view: Page = screen.page
    view.get_by_role("link", name="Retry from failed step…").click()
    view.get_by_label("Reason").fill(REASON)
    view.get_by_role("button", name="Retry from 'receipt'").dblclick()
    view.get_by_role("heading", name="Queued a retry").wait_for()
    receipt = view.url
    view.go_back()
    expect(view.get_by_text("It was retried already").first).to_be_visible()  # nothing was stored
    assert Job.objects.filter(retry_of=job).count() == 1
    assert AuditEvent.objects.filter(action="job.resume").count() == 1
    screen.open(receipt.removeprefix(screen.home))
    expect(view.get_by_text(REASON)).to_be_visible()


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_step_in_doubt_is_observed_and_then_kept(
    screen_of: Screens, shop: Workspace, tmp_path: Path, width: int, scheme: str
) -> None:
    job = uncertain(shop, tmp_path)
    screen = screen_of(width, color_scheme=scheme)
    view = screen.page
    screen.log_in()
    screen.open(page(job))
    expect(view.get_by_role("heading", name="One step may already have happened")).to_be_visible()
    screen.shoot(f"doubt-{scheme}-{width}-1-job")
    expect(view.get_by_text("Retry from failed step Not now:")).to_be_visible()
    view.get_by_role("link", name="Reconcile…").click()
    view.get_by_label("It happened:").check()
    view.get_by_role("textbox", name="Output").fill('{"ok": true}')
    view.get_by_label("Reason").fill("The provider's journal shows the charge.")
    screen.shoot(f"doubt-{scheme}-{width}-2-reconcile")
    view.get_by_role("button", name="Record what was seen").click()
    expect(view.get_by_text("recorded that step 'charge' happened")).to_be_visible()
    screen.open(page(job))
    view.get_by_role("link", name="Retry from failed step…").click()
    expect(view.get_by_role("row", name="charge").get_by_text("kept")).to_be_visible()
    screen.shoot(f"doubt-{scheme}-{width}-3-resume")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_long_words_break_and_every_other_page_fits(
    screen_of: Screens, shop: Workspace, tmp_path: Path, width: int
) -> None:
    long_key = "order-" + "x" * 240
    dead(shop, tmp_path, "k" * 200)
    card = {"number": CANARY, "holder": "A" * 300}
    leaked = ended(secretive.s(ledger=str(tmp_path / "l"), card=card, fault="leak"), shop, long_key)
    screen = screen_of(width)
    screen.log_in()
    paths = {
        "job-long": page(leaked),
        "resume-long": f"/admin/jobs/job/{leaked.pk}/resume/",
        "jobs": "/admin/jobs/job/",
        "dead-letters-long": "/admin/jobs/deadletter/",
        "alerts": "/admin/alerts/alert/",
        "alert": f"/admin/alerts/alert/{_newest_alert()}/change/",
        "audit": "/admin/workspaces/auditevent/",
        "events": "/admin/jobs/event/",
        "members": "/admin/workspaces/membership/",
        "app": "/admin/jobs/",
        "password": "/admin/password_change/",
    }
    for name, path in paths.items():
        screen.open(path)
        screen.shoot(f"{name}-{width}")
        assert CANARY not in screen.page.content()


def _newest_alert() -> int:
    from alerts.models import Alert

    return Alert.objects.latest("pk").pk
