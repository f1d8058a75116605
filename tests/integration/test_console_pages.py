"""What every page of the console keeps: headers, secrets, one number of queries, right words."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from config.env import ROOT
from jobs.models import Job, Step, Upkeep
from jobs.sweep import UPKEEP
from tests.drills.kinds import noop, secretive
from tests.integration.console_scene import (
    CANARY,
    at_console,
    confirm,
    dead,
    ended,
    finished,
    form_on,
    page,
    pages_of,
    uncertain,
)
from tests.integration.kernel.acting import claimed_elsewhere, expired, swept
from workspaces.models import Workspace
from workspaces.permissions import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

LISTS = ("jobs_job_changelist", "jobs_deadletter_changelist")


@pytest.fixture
def ana() -> Client:
    return at_console("ana", Role.LEAD)


def act(client: Client, job: Job, verb: str, **typed: str) -> Any:
    """Do it by the form; answers the receipt's address."""
    response = client.post(confirm(job, verb), form_on(client, confirm(job, verb), **typed))
    assert response.status_code == 303, response.content.decode()
    return response["Location"]


@pytest.fixture
def leaked(ana: Client, acme: Workspace, tmp_path: Path) -> list[str]:
    """A canary in params, in error texts and in outputs, in every state a page may show."""
    card = {"number": CANARY, "holder": "A. Canary"}
    ledger = str(tmp_path / "l")
    first = ended(secretive.s(ledger=ledger, card=card, fault="leak"), acme, "leak")
    again = ended(secretive.s(ledger=ledger, card=card, fault="terminal"), acme, "output")
    # An output that repeats, under a name that says nothing, what the params hide.
    Step.objects.filter(job=again).update(output={"echo": f"card {CANARY} taken", "token": CANARY})
    receipts = [act(ana, first, "resume"), act(ana, again, "restart")]
    successors = list(Job.objects.filter(retry_of__isnull=False))
    receipts += [act(ana, finished(job), "resolve") for job in successors]
    charged = uncertain(acme, tmp_path, "charged")
    seen = {"step": "charge", "outcome": "happened"}
    output = f'{{"api_key": "{CANARY}", "note": "password={CANARY}"}}'
    receipts.append(act(ana, charged, "reconcile", output=output, **seen))
    assert Job.objects.filter(params__card__number=CANARY).count() == 4
    return receipts


def test_no_page_shows_a_secret(ana: Client, leaked: list[str]) -> None:
    shown = [*pages_of(ana), *leaked]
    assert len(shown) > 50
    for address in shown:
        response = ana.get(address)
        assert response.status_code in (200, 302), address
        text = response.content.decode()
        for secret in (CANARY, "hunter2-canary", "canary-token-from-login"):
            assert secret not in text, address


def test_what_is_hidden_is_seen_to_be_hidden(ana: Client, leaked: list[str]) -> None:
    job = Job.objects.get(key="leak", retry_of=None)
    text = ana.get(page(job)).content.decode()
    assert "&quot;number&quot;: &quot;[hidden]&quot;" in text
    assert "A. Canary" in text


def test_of_a_kind_that_no_code_knows_everything_is_hidden(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    job = dead(acme, tmp_path)
    Job.objects.filter(pk=job.pk).update(kind="gone.away", params={"anything": CANARY})
    Step.objects.create(job=job, name="x", effect="once", state="done", attempt=1, output=CANARY)
    text = ana.get(page(job)).content.decode()
    assert CANARY not in text
    assert "no code here knows what this kind hides" in text
    assert "deploy it first" in text


def test_every_answer_has_the_policy_and_is_not_stored(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    job = dead(acme, tmp_path)
    receipt = act(ana, job, "resume")
    missing = ["/admin/jobs/job/nonsense/change/", "/admin/nowhere/", "/admin/jobs/job/?params=1"]
    shut = [reverse("admin:jobs_job_add"), reverse("admin:jsi18n")]
    for address in [*pages_of(ana), receipt, *missing, *shut, reverse("admin:login")]:
        response = ana.get(address)
        assert "no-store" in response["Cache-Control"], address
        policy = response["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response["X-Frame-Options"] == "DENY"


INLINE = re.compile(r"""\sstyle\s*=|\son[a-z]+\s*=\s*["']|<style|javascript:""", re.IGNORECASE)
SCRIPT = re.compile(r"<script(?![^>]*\ssrc=)", re.IGNORECASE)


def test_no_template_of_ours_has_inline_script_or_style() -> None:
    folder = ROOT / "config" / "console" / "templates"
    templates = list(folder.rglob("*.html"))
    assert len(templates) > 10
    for template in templates:
        text = template.read_text()
        assert not INLINE.search(text), template
        assert not SCRIPT.search(text), template


def test_no_page_has_inline_script_or_style(ana: Client, acme: Workspace, tmp_path: Path) -> None:
    receipt = act(ana, dead(acme, tmp_path), "resume")
    for address in [*pages_of(ana), receipt, "/admin/nowhere/"]:
        text = ana.get(address).content.decode()
        assert not INLINE.search(text), address
        assert not SCRIPT.search(text), address


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    return len(captured)


def test_a_page_takes_the_same_number_of_queries_whatever_there_is(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    job = dead(acme, tmp_path)
    addresses = [reverse(f"admin:{name}") for name in (*LISTS, "index", "jobs_event_changelist")]
    addresses += [page(job), confirm(job, "resume")]
    _copies(job, 9)
    few = {address: queries(ana, address) for address in addresses}
    _copies(job, 291)
    attempt = job.attempts.get()
    for number in range(2, 30):
        attempt.pk, attempt.number = None, number
        attempt.save()
    Step.objects.bulk_create(
        Step(job=job, name=f"second:{n}", effect="repeatable", state="done", attempt=1)
        for n in range(300)
    )
    assert {address: queries(ana, address) for address in addresses} == few
    assert max(few.values()) < 40, few


@pytest.mark.parametrize("name", LISTS)
def test_a_process_that_has_shown_nothing_yet_shows_a_list_while_another_one_writes(
    ana: Client, acme: Workspace, tmp_path: Path, name: str
) -> None:
    """A page only reads, so the one writer that SQLite lets in is never in its way."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL has many writers")
    dead(acme, tmp_path, "order-42")
    vars(connection.features).pop("supports_json_field", None)
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 100")
    database = str(connection.settings_dict["NAME"])
    with closing(sqlite3.connect(database, isolation_level=None)) as another:
        another.execute("BEGIN IMMEDIATE")
        response = ana.get(reverse(f"admin:{name}"))
    assert response.status_code == 200
    assert b"order-42" in response.content


def _copies(job: Job, count: int) -> None:
    copies = []
    for number in range(count):
        copy = Job.objects.get(pk=job.pk)
        copy.pk = copy.root_id = Job._meta.pk.get_default()
        copy.key = f"copy-{Job.objects.count()}-{number}"
        copies.append(copy)
    Job.objects.bulk_create(copies)


def test_a_list_says_where_it_is_and_offers_the_whole_only_where_it_is_narrowed(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    dead(acme, tmp_path)
    lists = [each for each in pages_of(ana) if re.fullmatch(r"/admin/\w+/\w+/", each)]
    assert len(lists) > 10
    for address in lists:
        text = ana.get(address).content.decode()
        title = re.search(r"<h1>(.*?)</h1>", text)
        assert title, address
        assert f'<a href="/admin/">Overview</a>\n  &rsaquo; {title[1]}\n' in text, address
        assert "Show all" not in text, address
        if 'id="searchbar"' in text:
            assert "Show all" in ana.get(address, {"q": "nowhere"}).content.decode(), address


def test_a_list_is_a_page_of_a_hundred_at_most() -> None:
    assert all(each.list_per_page <= 100 for each in admin.site._registry.values())


@pytest.mark.parametrize("name", LISTS)
def test_a_job_is_found_by_its_exact_id_key_or_request_id(
    ana: Client, acme: Workspace, tmp_path: Path, name: str
) -> None:
    job = dead(acme, tmp_path, "order-42")
    dead(acme, tmp_path, "order-421")
    Job.objects.filter(pk=job.pk).update(request_id="req-0042")
    for term in (str(job.pk), "order-42", " req-0042 "):
        found = ana.get(reverse(f"admin:{name}"), {"q": term}).context["cl"].result_list
        assert [row.pk for row in found] == [job.pk], term
    assert not ana.get(reverse(f"admin:{name}"), {"q": "order"}).context["cl"].result_list


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("", {"dead", "in-doubt", "well", "waiting"}),
        ("state=dead", {"dead", "in-doubt"}),
        ("state=dead&cause=uncertain", {"in-doubt"}),
        ("kind=drills.noop", {"well", "waiting"}),
        ("workspace=acme&state=succeeded", {"well"}),
        ("workspace=nowhere", set()),
        ("wait=scheduled", {"waiting"}),
    ],
)
def test_the_list_is_filtered_by_its_address(
    ana: Client, acme: Workspace, tmp_path: Path, query: str, keys: set[str]
) -> None:
    dead(acme, tmp_path, "dead")
    uncertain(acme, tmp_path, "in-doubt")
    ended(noop.s(), acme, "well")
    noop.s().enqueue(workspace=acme, key="waiting", countdown=3600)
    rows = ana.get(f"{reverse('admin:jobs_job_changelist')}?{query}").context["cl"].result_list
    assert {row.key for row in rows} == keys


def test_a_dead_letter_leaves_the_list_when_retried_or_resolved(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    jobs = {key: dead(acme, tmp_path, key) for key in ("retried", "resolved", "left")}
    act(ana, jobs["retried"], "resume")
    act(ana, jobs["resolved"], "resolve")
    letters = reverse("admin:jobs_deadletter_changelist")
    assert [row.key for row in ana.get(letters).context["cl"].result_list] == ["left"]
    old_link = reverse("admin:jobs_deadletter_change", args=[jobs["retried"].pk])
    assert ana.get(old_link)["Location"] == page(jobs["retried"])


@pytest.mark.parametrize("address", LISTS)
@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ({"losses": 99}, "worker lost; 3 losses are used up"),
        (
            {"failures": 99, "kill_at": Now() - timedelta(hours=1)},
            "time limit passed; 3 retries are used up",
        ),
    ],
    ids=["lost", "timed out"],
)
def test_what_no_worker_told_an_error_of_is_listed_with_its_reason(
    ana: Client, acme: Workspace, times: dict[str, Any], reason: str, address: str
) -> None:
    job = noop.s().enqueue(workspace=acme, key="a", countdown=3600)
    swept(expired(claimed_elsewhere(job, **times)))
    assert job.attempts.get().reason == reason
    assert reason in ana.get(reverse(f"admin:{address}")).content.decode()


def test_the_first_page_counts_what_needs_a_person(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    calm = ana.get(reverse("admin:index"))
    assert "Nothing needs you." in calm.content.decode()
    dead(acme, tmp_path)
    uncertain(acme, tmp_path)
    noop.s().enqueue(workspace=acme, key="later", countdown=3600)
    shown = {t.name: t for t in ana.get(reverse("admin:index")).context["tiles"]}
    assert {name: tile.number for name, tile in shown.items()} == {
        "Uncertain": 1,
        "Dead letters": 2,
        "Open alerts": 2,
        "Retrying": 0,
        "Queued": 1,
        "Running": 0,
    }
    for tile in shown.values():
        listed = ana.get(tile.url).context["cl"]
        assert listed.result_count == tile.number, tile.name


def test_every_page_says_when_nobody_looks_after_the_jobs(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    addresses = [reverse("admin:index"), page(dead(acme, tmp_path))]
    warning = "Nothing is looked after at this moment."
    assert all(warning in ana.get(address).content.decode() for address in addresses)
    Upkeep.objects.create(name=UPKEEP, passed_at=Now(), by="a test")
    assert not any(warning in ana.get(address).content.decode() for address in addresses)
    Upkeep.objects.update(passed_at=F("passed_at") - timedelta(minutes=5))
    assert all(warning in ana.get(address).content.decode() for address in addresses)


def test_a_page_of_steps_or_attempts_too_many_says_so(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    job = dead(acme, tmp_path)
    Step.objects.bulk_create(
        Step(job=job, name=f"second:{n}", effect="repeatable", state="done", attempt=1)
        for n in range(300)
    )
    assert "The first 201 are shown" in ana.get(page(job)).content.decode()


@pytest.mark.parametrize(
    ("verb", "button"),
    [("cancel", "Cancel now"), ("resolve", "Not now: Only a dead letter is resolved")],
)
def test_a_queued_job_can_be_cancelled_and_nothing_else(
    ana: Client, acme: Workspace, verb: str, button: str
) -> None:
    job = noop.s().enqueue(workspace=acme, key="later", countdown=3600)
    assert button in ana.get(confirm(job, verb)).content.decode()
    offered = ana.get(page(job)).context["page"].offers
    assert [offer.name for offer in offered] == ["Cancel"]


def test_cancelling_a_queued_job_gives_a_receipt(ana: Client, acme: Workspace) -> None:
    job = noop.s().enqueue(workspace=acme, key="later", countdown=3600)
    receipt = act(ana, job, "cancel")
    assert "ana cancelled it" in ana.get(receipt).content.decode()
    job.refresh_from_db()
    assert job.state == "cancelled"


def test_reconcile_says_when_a_step_was_begun_and_by_which_attempt(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    """What to look for at the provider."""
    job = uncertain(acme, tmp_path)
    begun = Step.objects.get(job=job).intent_at
    assert begun is not None
    shown = ana.get(confirm(job, "reconcile")).content.decode()
    assert f"begun {begun:%Y-%m-%d %H:%M:%S} UTC by attempt 1)" in shown


def test_reconcile_wants_to_know_what_was_seen(
    ana: Client, acme: Workspace, tmp_path: Path
) -> None:
    job = uncertain(acme, tmp_path)
    form = form_on(ana, confirm(job, "reconcile"), output="{not json")
    response = ana.post(confirm(job, "reconcile"), form)
    assert response.status_code == 422
    text = response.content.decode()
    assert "This field is required." in text
    assert "This is no JSON that can be kept" in text
    assert "{not json" in text
    assert Step.objects.get(job=job).observed == ""


def test_a_steps_line_tells_what_became_of_it(ana: Client, acme: Workspace) -> None:
    """Late, unstorable or observed: what an operator must know before a retry."""
    job = noop.s().enqueue(workspace=acme, key="a", countdown=3600)
    began = {"job": job, "effect": "once", "attempt": 1, "intent_at": Now(), "opens_at": Now()}
    late = {"late_at": Now(), "late_output": {"late": "found it"}}
    seen = {"observed": "happened", "observed_by": "user:ben", "observed_at": Now()}
    Step.objects.create(name="late", state="started", **began, **late)
    Step.objects.create(name="odd", state="done", output_error="no JSON", done_at=Now(), **began)
    Step.objects.create(name="seen", state="started", observed_output={"id": 7}, **began, **seen)
    text = ana.get(page(job)).content.decode()
    assert "its worker brought the output late" in text
    assert "found it" in text
    assert "done, but its output was not stored: no JSON" in text
    assert "observed by user:ben" in text
    assert "it happened" in text


def test_what_will_happen_to_a_running_job_is_said_before_it_is_cancelled(
    ana: Client, acme: Workspace
) -> None:
    job = noop.s().enqueue(workspace=acme, key="a", countdown=3600)
    Job.objects.filter(pk=job.pk).update(
        state="running", lease_until=Now() + timedelta(minutes=1), started_at=Now()
    )
    text = ana.get(confirm(job, "cancel")).content.decode()
    assert "Cancel at the next step boundary" in text
    assert "is not interrupted and may still take effect" in text
    assert "runs since" in ana.get(reverse("admin:jobs_job_changelist")).content.decode()
