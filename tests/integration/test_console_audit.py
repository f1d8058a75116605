"""The audit trail at the console: its words, its filters, and that it reads the newest alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import label_for_field
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.integration.console_scene import at_console
from workspaces.actors import SYSTEM
from workspaces.admin import trail
from workspaces.audit import record
from workspaces.models import AuditEvent, Workspace
from workspaces.permissions import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]
TRAIL = "/admin/workspaces/auditevent/"


def deed(place: Workspace, name: str, result: str = "done", reason: str = "") -> AuditEvent:
    return record(
        actor=SYSTEM, action="job.resume", workspace=place, object_type="job", object_id=name,
        reason=reason, request_id=f"request-of-{name}", result=result,
    )  # fmt: skip


def listed(client: Client, query: str = "") -> list[str]:
    page: Any = client.get(f"{TRAIL}?{query}")
    assert page.status_code == 200
    events = page.context["cl"].result_list
    return [event.object_id for event in events if event.action == "job.resume"]


def headings(client: Client, address: str) -> list[str]:
    text = client.get(address).content.decode()
    head = re.search(r"<thead>.*?</thead>", text, re.S)
    return re.findall(r'class="text"><span>([^<]*)', head[0]) if head else []


def test_its_words_are_those_of_the_house(acme: Workspace) -> None:
    event = deed(acme, "one", "version_changed", "the bank is back")
    ana = at_console("ana", Role.OPERATOR, acme)
    assert headings(ana, TRAIL) == [
        "When", "Who", "Deed", "Object", "Workspace", "Reason", "Result",
    ]  # fmt: skip
    shown = ana.get(TRAIL).content.decode()
    assert "version changed" in shown
    assert "the bank is back" in shown
    page = ana.get(f"{TRAIL}{event.pk}/change/").content.decode()
    for label in ("Who:", "Principal:", "Deed:", "Object:", "Result:", "Before:", "After:"):
        assert label in page, label


def test_it_is_filtered_by_workspace_and_by_what_became(acme: Workspace, globex: Workspace) -> None:
    for place in (acme, globex):
        deed(place, f"{place.slug}-done")
        deed(place, f"{place.slug}-refused", "not_allowed")
    ops = at_console("ops", Role.ADMIN)
    every = {"acme-done", "acme-refused", "globex-done", "globex-refused"}
    assert set(listed(ops)) == every
    assert listed(ops, "workspace=acme") == ["acme-refused", "acme-done"]
    assert listed(ops, "result=refused") == ["globex-refused", "acme-refused"]
    assert listed(ops, "result=done&workspace=globex") == ["globex-done"]
    assert listed(ops, "q=acme-done") == ["acme-done"]
    assert listed(ops, "q=request-of-acme-refused") == ["acme-refused"]
    assert listed(ops, "q=acme-done&result=refused") == []
    assert listed(ops, "q=acme-refused&result=done") == []
    assert ops.get(f"{TRAIL}?reason__startswith=a").status_code == 400
    ana = at_console("ana", Role.OPERATOR, acme)
    assert listed(ana) == ["acme-refused", "acme-done"]
    assert listed(ana, "workspace=globex") == []
    assert listed(ana, "q=globex-done") == []


def test_it_looks_at_the_newest_and_says_so(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "MOST", 5)
    monkeypatch.setattr(trail, "WINDOW", 8)
    ops = at_console("ops", Role.ADMIN)
    deed(acme, "refused", "not_allowed")
    for number in range(10):
        deed(acme, f"n-{number}")
    assert listed(ops) == listed(ops, "workspace=acme") == [f"n-{n}" for n in (9, 8, 7, 6, 5)]
    assert listed(ops, "result=refused") == []
    assert b"Only the newest were looked at" in ops.get(TRAIL).content
    assert listed(ops, "q=refused") == ["refused"]
    with CaptureQueriesContext(connection) as captured:
        ops.get(f"{TRAIL}?workspace=acme")
    counts = [q["sql"] for q in captured.captured_queries if "COUNT(*)" in q["sql"]]
    assert all(" IN (" in sql for sql in counts if "auditevent" in sql)


def test_who_did_it_is_headed_so_in_every_list() -> None:
    headed = {
        f"{model.__name__}.{name}": str(label_for_field(name, model, shown))
        for model, shown in admin.site._registry.items()
        for name in shown.list_display
    }
    assert {name: label for name, label in headed.items() if label.endswith("label")} == {}
    assert headed["Operation.who"] == headed["AuditEvent.who"] == "who"
