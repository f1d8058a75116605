"""The console's alert pages: to read, and only what the reader may know of."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse, reverse_lazy

from alerts.models import Alert
from jobs.models import Job
from tests.integration.dead_letters import dies, queued_job
from workspaces.models import Membership, Workspace
from workspaces.permissions import Role

pytestmark = pytest.mark.django_db

LIST = reverse_lazy("admin:alerts_alert_changelist")
FORBIDDEN, NOT_FOUND, FOUND, ELSEWHERE = 403, 404, 200, 302


def reader(client: Client, workspace: Workspace | None, *, superuser: bool = False) -> None:
    user = User.objects.create_user("ana", is_staff=True, is_superuser=superuser)
    Membership.objects.create(user=user, workspace=workspace, role=Role.VIEWER)
    client.force_login(user)


def page_of(alert: Alert) -> str:
    return reverse("admin:alerts_alert_change", args=[alert.pk])


def dead(workspace: Workspace) -> Job:
    return dies(queued_job(workspace, f"order-of-{workspace.slug}"))


def test_the_list_shows_the_alerts_of_the_readers_workspaces_alone(
    client: Client, acme: Workspace, globex: Workspace
) -> None:
    dead(acme)
    dead(globex)
    reader(client, acme)
    page = client.get(str(LIST)).content.decode()
    assert "used up its retries" in page
    assert "Acme" in page
    assert "Globex" not in page


def test_a_platform_operator_sees_all(client: Client, acme: Workspace, globex: Workspace) -> None:
    dead(acme)
    dead(globex)
    reader(client, None)
    page = client.get(str(LIST)).content.decode()
    assert "Acme" in page
    assert "Globex" in page


def test_the_page_of_an_alert_tells_its_trace_and_its_dead_letters(
    client: Client, acme: Workspace
) -> None:
    job = dead(acme)
    reader(client, acme)
    page = client.get(page_of(Alert.objects.get())).content.decode()
    assert str(job.pk) in page
    assert "registry answered 503" in page
    assert "retry from the failed step" in page


def test_a_foreign_alert_is_not_found(client: Client, acme: Workspace, globex: Workspace) -> None:
    dead(globex)
    reader(client, acme)
    answer = client.get(page_of(Alert.objects.get()))
    missing = client.get(reverse("admin:alerts_alert_change", args=[10**9]))
    assert answer.status_code == missing.status_code == NOT_FOUND
    assert answer.content == missing.content


def test_nobody_sees_alerts_without_a_membership_not_even_a_superuser(
    client: Client, acme: Workspace
) -> None:
    dead(acme)
    client.force_login(User.objects.create_superuser("root"))
    for address in (str(LIST), page_of(Alert.objects.get())):
        answer = client.get(address)
        assert answer.status_code == ELSEWHERE
        assert answer["Location"].startswith(reverse("admin:login"))


@pytest.mark.parametrize("superuser", [False, True])
def test_nothing_can_be_written(client: Client, acme: Workspace, *, superuser: bool) -> None:
    dead(acme)
    alert = Alert.objects.get()
    reader(client, acme, superuser=superuser)
    before = Alert.objects.values().get()
    assert client.get(reverse("admin:alerts_alert_add")).status_code == FORBIDDEN
    for view in ("change", "delete"):
        url = reverse(f"admin:alerts_alert_{view}", args=[alert.pk])
        assert client.post(url, {"title": "gone", "post": "yes"}).status_code == FORBIDDEN
    assert Alert.objects.values().get() == before


def test_a_job_id_finds_its_alert(client: Client, acme: Workspace) -> None:
    job = dead(acme)
    reader(client, acme)
    assert "used up its retries" in client.get(str(LIST), {"q": str(job.pk)}).content.decode()
    page = client.get(str(LIST), {"q": "no such thing"})
    assert page.status_code == FOUND
    assert "used up its retries" not in page.content.decode()
