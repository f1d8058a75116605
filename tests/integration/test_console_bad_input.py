"""What no database keeps as text is refused with a sentence, on every page that takes any."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from jobs.models import Job, Step
from jobs.states import Verb
from tests.integration.console_scene import (
    PASSWORD,
    at_console,
    confirm,
    form_on,
    person,
    uncertain,
)
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import Role

pytestmark = pytest.mark.django_db(transaction=True)

OF_EVERY_LIST = ("q", "p", "o", "all", "e", "_popup", "_to_field", "_facets", "never-heard-of")
UTF8_OF_HALF_A_PAIR = "%ED%A0%80"
ODD = (UTF8_OF_HALF_A_PAIR, "%FF", "9" * 1000, "-1", "[")


@pytest.fixture
def ana() -> Client:
    client = at_console("ana", Role.ADMIN)
    client.raise_request_exception = False
    return client


def names_of_lists() -> list[str]:
    metas = [model._meta for model in admin.site._registry]
    return sorted(f"{meta.app_label}_{meta.model_name}" for meta in metas)


def questions(name: str) -> Iterator[str]:
    """Everything that this list reads from its address."""
    (model_admin,) = (
        each
        for model, each in admin.site._registry.items()
        if f"{model._meta.app_label}_{model._meta.model_name}" == name
    )
    for each in model_admin.list_filter:
        asked = getattr(each, "parameter_name", each)
        yield str(asked)
        yield f"{asked}__exact"
    yield from OF_EVERY_LIST


@pytest.mark.parametrize("name", names_of_lists())
def test_no_list_breaks_on_what_it_is_asked(ana: Client, acme: Workspace, name: str) -> None:
    address = reverse(f"admin:{name}_changelist")
    asked = tuple(questions(name))
    for each in asked:
        assert_not_understood(ana.get(f"{address}?{each}=a%00b"))
    for odd in ODD:
        for some in (asked, [each for each in asked if each not in OF_EVERY_LIST], ["q"], ["p"]):
            response = ana.get(f"{address}?{'&'.join(f'{each}={odd}' for each in some)}")
            assert response.status_code < 500, (some, odd)
    assert_not_understood(ana.get(f"{address}?a%00b=1"))


@pytest.mark.parametrize("name", names_of_lists())
def test_no_object_page_breaks_on_an_odd_id(ana: Client, name: str) -> None:
    one = reverse(f"admin:{name}_changelist")
    for odd in ODD:
        assert ana.get(f"{one}{odd}/change/").status_code < 500, odd
    assert_not_understood(ana.get(f"{one}a%00b/change/"))


def assert_not_understood(response: Any) -> None:
    assert response.status_code == 400
    assert "Nothing was done" in response.content.decode()
    assert response["Cache-Control"] == "no-store"
    assert response["X-Request-ID"]


@pytest.mark.parametrize("verb", [verb.value for verb in Verb])
@pytest.mark.parametrize("odd", ["a\0b", "\ud800", "x" * 100_000], ids=["nul", "half", "long"])
def test_no_deed_breaks_on_what_is_typed(
    ana: Client, acme: Workspace, tmp_path: Path, verb: str, odd: str
) -> None:
    job = uncertain(acme, tmp_path)
    seen = {"step": "charge", "outcome": "happened", "output": "null"}
    form = form_on(ana, confirm(job, verb), **seen)
    fields = ("digest", "operation_id", "step", "outcome", "output", "reason")
    for names in (*((name,) for name in fields), fields):
        answer = posted(ana, confirm(job, verb), {**form, **dict.fromkeys(names, odd)})
        assert answer.status_code < 500, names


def posted(client: Client, address: str, typed: dict[str, str]) -> Any:
    """As a browser sends a form, and with what no browser would."""
    form = {name: text.encode(errors="surrogatepass") for name, text in typed.items()}
    return client.post(address, urlencode(form), content_type="application/x-www-form-urlencoded")


DEEP = "[" * 50_000 + "]" * 50_000
ENDLESS = "9" * 5_000
BAD_OUTPUTS = {
    "deep": DEEP,
    "deeper than is kept": "[" * 70 + "]" * 70,
    "endless": ENDLESS,
    "endless within": f'{{"a": [{ENDLESS}]}}',
    "half a pair": '"\\ud800"',
    "half a pair as a name": '{"\\udfff": 1}',
    "nul": '"a\\u0000b"',
    "no number": "NaN",
    "infinite": "1e999",
    "too large": f'"{"x" * 70_000}"',
    "no JSON": "{not json",
}


@pytest.mark.parametrize("output", BAD_OUTPUTS.values(), ids=BAD_OUTPUTS)
def test_an_output_that_cannot_be_kept_is_refused_and_stays_typed(
    ana: Client, acme: Workspace, tmp_path: Path, output: str
) -> None:
    job = uncertain(acme, tmp_path)
    form = form_on(ana, confirm(job, "reconcile"), step="charge", outcome="happened", output=output)
    answer = ana.post(confirm(job, "reconcile"), form)
    assert answer.status_code == 422, answer.content.decode()[:500]
    text = answer.content.decode()
    assert "Nothing was" in text
    assert output[:50].replace('"', "&quot;") in text
    assert not AuditEvent.objects.filter(action="job.reconcile").exists()
    assert Step.objects.get(job=job, name="charge").observed == ""


@pytest.mark.parametrize(
    ("typed", "kept"), [("", None), ("null", None), ('{"id": "ch_1"}', {"id": "ch_1"}), ("0", 0)]
)
def test_an_output_is_kept_as_it_was_typed(
    ana: Client, acme: Workspace, tmp_path: Path, typed: str, kept: object
) -> None:
    job = uncertain(acme, tmp_path)
    form = form_on(ana, confirm(job, "reconcile"), step="charge", outcome="happened", output=typed)
    assert ana.post(confirm(job, "reconcile"), form).status_code == 303
    assert Step.objects.get(job=job, name="charge").observed_output == kept


@pytest.mark.parametrize(
    "address",
    [
        "/admin/?x=%00",
        "/admin/%00/",
        "/admin/login/?next=%00",
        "/%00",
        "/admin/jsi18n/?language=%00",
    ],
)
def test_no_other_address_of_the_console_takes_it(ana: Client, address: str) -> None:
    assert_not_understood(ana.get(address))


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/docs/?x=%00", 302),
        ("/api/v1/workspaces/a%00b/jobs/", 404),
    ],
)
def test_programs_are_answered_by_the_api_itself(client: Client, address: str, status: int) -> None:
    assert client.get(address).status_code == status


@pytest.mark.parametrize("name", ["sessionid", "csrftoken", "messages"])
def test_no_cookie_breaks_a_page(client: Client, name: str) -> None:
    client.raise_request_exception = False
    cookie = f'{name}="a\\000b"'
    for address in ("/admin/login/", "/admin/jobs/job/", "/admin/"):
        assert client.get(address, headers={"Cookie": cookie}).status_code < 500
    assert client.post("/admin/login/", {}, headers={"Cookie": cookie}).status_code < 500


@pytest.mark.parametrize("odd", ["a\0b", "\ud800", "x" * 10_000], ids=["nul", "half", "long"])
def test_nobody_comes_in_by_an_odd_name(client: Client, odd: str) -> None:
    person("ben", password=PASSWORD)
    client.raise_request_exception = False
    for typed in ({"username": odd, "password": PASSWORD}, {"username": "ben", "password": odd}):
        assert posted(client, reverse("admin:login"), typed).status_code == 200


def test_nothing_is_left_behind_by_a_refused_address(ana: Client, acme: Workspace) -> None:
    assert_not_understood(ana.post("/admin/jobs/job/?x=%00", {}))
    assert not Job.objects.exists()
