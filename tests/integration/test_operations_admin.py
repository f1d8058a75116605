"""The console's pages about operations: to read, and only what the reader may know of."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobs.models import Event, Operation, OperationItem
from jobs.recovery.operation import resolve
from tests.integration.bulk_scene import drafted, member, outcomes, rows, started, turns
from tests.integration.console_scene import CANARY, at_console
from workspaces.actors import SYSTEM
from workspaces.models import Workspace
from workspaces.permissions import Role

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "admin:jobs_operation_changelist"
ITEMS = "admin:jobs_operationitem_changelist"
FOUND, FORBIDDEN, ABSENT = 200, 403, 404


@pytest.fixture
def operation(acme: Workspace) -> Operation:
    rows(acme, 3)
    rows(acme, 1, "p-broken", params={"hook": "key_error"})
    ana = member(acme)
    done = turns(started(drafted(acme, ana), ana))
    assert outcomes(done) == {"done": 3, "failed": 1}
    Operation.objects.filter(pk=done.pk).update(reason=f"with password={CANARY}")
    OperationItem.objects.filter(operation=done, outcome="failed").update(
        sentence=f"password={CANARY} refused"
    )
    return done


def page(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == FOUND, response.content.decode()
    return response.content.decode()


def test_the_list_and_the_page_say_what_became_of_it(acme: Workspace, operation: Operation) -> None:
    client = at_console("vera", Role.VIEWER, acme)
    listed = page(client, reverse(LIST))
    assert "resume 4 by state=dead,kind=drills.bulk" in listed
    assert "3 done, 1 failed" in listed
    shown = page(client, reverse("admin:jobs_operation_change", args=[operation.pk]))
    assert "failed: 1 error" in shown
    assert reverse("admin:jobs_job_change", args=[operation.job_id]) in shown
    failed = f"{reverse(ITEMS)}?operation={operation.pk}&amp;outcome=failed"
    assert failed in shown
    items = page(client, failed.replace("&amp;", "&"))
    assert "p-broken" not in items
    assert ">error<" in items
    assert items.count('class="field-position"') == 1


def test_an_item_links_to_its_job_and_to_what_came_of_it(
    acme: Workspace, operation: Operation
) -> None:
    client = at_console("vera", Role.VIEWER, acme)
    item = OperationItem.objects.get(operation=operation, position=1)
    items = page(client, f"{reverse(ITEMS)}?operation={operation.pk}&outcome=done")
    for job_id in (item.object_id, item.result_id):
        assert reverse("admin:jobs_job_change", args=[job_id]) in items
    one = page(client, reverse("admin:jobs_operationitem_change", args=[item.pk]))
    assert item.object_id in one


def test_no_secret_is_on_a_page(acme: Workspace, operation: Operation) -> None:
    client = at_console("vera", Role.VIEWER, acme)
    for address in (
        reverse(LIST),
        reverse("admin:jobs_operation_change", args=[operation.pk]),
        f"{reverse(ITEMS)}?operation={operation.pk}",
    ):
        assert CANARY not in page(client, address)


def test_no_secret_is_in_an_event(operation: Operation) -> None:
    resolve(operation.pk, actor=SYSTEM, reason=f"refunded, password={CANARY}")
    event = Event.objects.get(type="operation.resolved")
    assert event.data["resolution"].startswith("refunded, password=")
    assert CANARY not in str(event.data)


def test_a_reader_elsewhere_finds_neither_operation_nor_items(operation: Operation) -> None:
    elsewhere = Workspace.objects.create(slug="globex", name="Globex")
    client = at_console("max", Role.ADMIN, elsewhere)
    assert str(operation.pk) not in page(client, reverse(LIST))
    assert "field-position" not in page(client, f"{reverse(ITEMS)}?operation={operation.pk}")
    address = reverse("admin:jobs_operation_change", args=[operation.pk])
    assert client.get(address).status_code == ABSENT


def test_items_of_what_is_no_operation_are_none(acme: Workspace, operation: Operation) -> None:
    client = at_console("vera", Role.VIEWER, acme)
    assert "field-position" not in page(client, f"{reverse(ITEMS)}?operation=nonsense")


def test_nothing_is_edited_by_form(acme: Workspace, operation: Operation) -> None:
    client = at_console("ada", Role.ADMIN, acme)
    address = reverse("admin:jobs_operation_change", args=[operation.pk])
    client.get(address)
    token = client.cookies["csrftoken"].value
    posted = client.post(address, {"csrfmiddlewaretoken": token, "state": "draft"})
    assert posted.status_code == FORBIDDEN
    operation.refresh_from_db()
    assert operation.state == "finished"
    assert client.get(reverse("admin:jobs_operation_add")).status_code == FORBIDDEN


def test_the_list_takes_few_queries_however_many_items(
    acme: Workspace, operation: Operation, django_assert_max_num_queries: Any
) -> None:
    client = at_console("vera", Role.VIEWER, acme)
    with django_assert_max_num_queries(12):
        page(client, reverse(LIST))
