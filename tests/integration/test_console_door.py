"""Who comes into the console, what they see there, and what they do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from config.console.door import open_door
from jobs.models import Job
from tests.integration.console_scene import (
    PASSWORD,
    at_console,
    confirm,
    dead,
    page,
    person,
)
from workspaces.models import AuditEvent, Membership, Workspace
from workspaces.permissions import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

VERBS = ("resume", "restart", "resolve", "cancel", "reconcile")


def login(client: Client, name: str) -> str:
    address = reverse("admin:login")
    return client.post(address, {"username": name, "password": PASSWORD}).content.decode()


def test_a_member_comes_in_by_password_and_needs_no_permission_row(
    client: Client, acme: Workspace
) -> None:
    user = person("ana", Role.VIEWER, acme, password=PASSWORD)
    assert login(client, "ana") == ""
    assert client.get(reverse("admin:index")).status_code == 200
    assert not user.user_permissions.exists()


def test_staff_without_a_membership_is_told_so(client: Client) -> None:
    User.objects.create_user("ben", password=PASSWORD, is_staff=True)
    assert "member of no workspace" in login(client, "ben")


def test_a_superuser_without_a_membership_stays_outside(client: Client) -> None:
    user = User.objects.create_superuser("root")
    client.force_login(user)
    response = client.get(reverse("admin:index"))
    assert response.status_code == 302
    assert response["Location"].startswith(reverse("admin:login"))


def test_a_member_who_is_no_staff_stays_outside(client: Client, acme: Workspace) -> None:
    user = User.objects.create_user("cid")
    Membership.objects.create(user=user, workspace=acme, role=Role.ADMIN)
    client.force_login(user)
    assert client.get(reverse("admin:index")).status_code == 302


def test_opening_the_door_again_changes_the_role_and_is_on_record(acme: Workspace) -> None:
    user = person("dee", Role.VIEWER, acme)
    open_door(user, role=Role.LEAD, workspace=acme)
    assert list(user.memberships.values_list("role", flat=True)) == [Role.LEAD]
    grants = AuditEvent.objects.filter(action="members.grant").order_by("pk")
    assert list(grants.values_list("after__role", flat=True)) == ["viewer", "lead"]


@pytest.fixture
def foreign(globex: Workspace, tmp_path: Path) -> Job:
    return dead(globex, tmp_path)


def test_a_job_of_another_workspace_is_not_found_on_any_address(
    acme: Workspace, foreign: Job
) -> None:
    ana = at_console("ana", Role.ADMIN, acme)
    event = AuditEvent.objects.create(
        workspace=foreign.workspace, actor="system", actor_label="x", action="job.resume",
        object_type="job", object_id=str(foreign.pk), result="done",
    )  # fmt: skip
    addresses = [
        page(foreign),
        reverse("admin:jobs_deadletter_change", args=[foreign.pk]),
        *[confirm(foreign, verb) for verb in VERBS],
        reverse("admin:jobs_job_receipt", args=[foreign.pk, event.pk]),
        reverse("admin:jobs_job_delete", args=[foreign.pk]),
        reverse("admin:jobs_job_history", args=[foreign.pk]),
        reverse("admin:workspaces_workspace_change", args=[foreign.workspace_id]),
        reverse("admin:workspaces_auditevent_change", args=[event.pk]),
    ]
    assert {address: ana.get(address).status_code for address in addresses} == dict.fromkeys(
        addresses, 404
    )


def test_a_post_for_a_job_of_another_workspace_is_not_found_and_does_nothing(
    acme: Workspace, foreign: Job
) -> None:
    ana = at_console("ana", Role.ADMIN, acme)
    ana.get(reverse("admin:password_change"))
    token = ana.cookies["csrftoken"].value
    for verb in VERBS:
        response = ana.post(confirm(foreign, verb), {"csrfmiddlewaretoken": token, "reason": "x"})
        assert response.status_code == 404
    assert Job.objects.count() == 1
    assert Job.objects.get().resolved_at is None


def test_an_id_that_never_existed_gets_the_very_same_page(acme: Workspace, foreign: Job) -> None:
    ana = at_console("ana", Role.ADMIN, acme)
    never = Job(pk="01990000-0000-7000-8000-000000000000")
    for one, other in [
        (page(foreign), page(never)),
        *[(confirm(foreign, v), confirm(never, v)) for v in VERBS],
    ]:
        assert ana.get(one).content == ana.get(other).content


def test_lists_and_counts_are_of_the_readers_workspaces(
    acme: Workspace, foreign: Job, tmp_path: Path
) -> None:
    ana = at_console("ana", Role.VIEWER, acme)
    own = dead(acme, tmp_path, "own-key")
    for name in ("jobs_job", "jobs_deadletter", "jobs_event", "workspaces_workspace"):
        text = ana.get(reverse(f"admin:{name}_changelist")).content.decode()
        assert "globex" not in text, name
    listed = ana.get(reverse("admin:jobs_deadletter_changelist")).content.decode()
    assert own.key in listed
    assert foreign.key not in listed
    overview = ana.get(reverse("admin:index"))
    assert [t.number for t in overview.context["tiles"] if t.name == "Dead letters"] == [1]


def test_a_member_of_all_workspaces_sees_all(acme: Workspace, foreign: Job) -> None:
    ops = at_console("ops", Role.VIEWER, None)
    assert ops.get(page(foreign)).status_code == 200


@pytest.mark.parametrize("model", ["jobs_job", "jobs_deadletter", "jobs_event", "jobs_upkeep",
                                   "workspaces_workspace", "workspaces_membership",
                                   "workspaces_auditevent"])  # fmt: skip
def test_nothing_is_added_by_form(model: str) -> None:
    ops = at_console("ops", Role.ADMIN, None)
    assert ops.get(reverse(f"admin:{model}_add")).status_code == 403


def test_nothing_is_deleted_or_changed_by_form(acme: Workspace, tmp_path: Path) -> None:
    ops = at_console("ops", Role.ADMIN, None)
    job = dead(acme, tmp_path)
    ops.get(reverse("admin:password_change"))
    token = {"csrfmiddlewaretoken": ops.cookies["csrftoken"].value, "post": "yes"}
    event = AuditEvent.objects.first()
    assert event is not None
    assert ops.post(reverse("admin:jobs_job_delete", args=[job.pk]), token).status_code == 403
    assert ops.post(page(job), {**token, "state": "succeeded"}).status_code == 405
    changed = reverse("admin:workspaces_auditevent_change", args=[event.pk])
    assert ops.post(changed, {**token, "reason": "another"}).status_code == 403
    assert Job.objects.get().state == "dead"


def test_hidden_values_cannot_be_guessed_through_a_lists_address(
    acme: Workspace, tmp_path: Path
) -> None:
    ana = at_console("ana", Role.ADMIN, acme)
    dead(acme, tmp_path)
    for query in ("params__ledger__startswith=a", "result__x=1", "steps__output__x=1", "actor=x"):
        address = f"{reverse('admin:jobs_job_changelist')}?{query}"
        assert ana.get(address).status_code == 400, query


def test_the_audit_trail_is_for_those_who_may_read_it(acme: Workspace) -> None:
    viewer = at_console("vic", Role.VIEWER, acme)
    assert viewer.get(reverse("admin:workspaces_auditevent_changelist")).status_code == 403
    operator = at_console("oli", Role.OPERATOR, acme)
    assert operator.get(reverse("admin:workspaces_auditevent_changelist")).status_code == 200
